//! Every mounted server and its state, as in `haft mcp status`. None is started.

use super::check::Check;
use crate::{
    config::Settings,
    mounting::mount::{
        MountPlan,
        status::{self, ServerView},
    },
};

const NAME: &str = "mcp server";

/// One line for each configured server.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let plan = MountPlan::of(settings);
    let views = status::servers(settings);
    views.iter().map(|view| check(view, &plan)).collect()
}

fn check(view: &ServerView, plan: &MountPlan) -> Check {
    let id = &view.server;
    let mut detail = format!("`{id}`: {}, tools: {}", view.state, view.tools_in_words());
    if let Some(error) = &view.last_error {
        detail = format!("{detail}; {error}");
    }
    match view.state.as_str() {
        "off" => Check::absent(NAME, detail, None),
        "login needed" => Check::warn(NAME, detail, format!("`haft mcp login {id}` logs you in")),
        "down" | "failed" => {
            let remedy = plan.remedy(id);
            let hint = remedy.unwrap_or_else(|| {
                format!("correct its entry, then `haft mcp review {id} --fetch` tries it")
            });
            Check::warn(NAME, detail, hint)
        }
        _ if view.new + view.changed > 0 || view.state == "never started" => Check::warn(
            NAME,
            detail,
            format!("`haft mcp review {id}` shows what it offers, for you to accept or not"),
        ),
        _ => Check::ok(NAME, detail),
    }
}
