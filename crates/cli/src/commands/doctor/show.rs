//! `haft doctor --show-sandbox TOOL`: what would confine a call's commands here, computed without
//! starting anything.

use std::{fmt::Write as _, sync::Arc};

use haft_contract::{
    access::Access,
    egress::EgressRules,
    ops::{Spawn, Tier},
};
use haft_host::{
    HostBuilder,
    workspace::{local_options, open_local},
};
use serde_json::json;

use crate::{
    args::IdentityArgs,
    commands::{App, arguments, call},
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page},
    view::outcome::OutcomeView,
};

/// The command used for `bash` if none is given.
const ANY_COMMAND: &str = "true";

/// Prints what would confine a call.
pub(super) async fn run(tool: &str, given: &[String], app: &App) -> Result<Exit, Stop> {
    let principal = IdentityArgs::default().principal(&app.env)?;
    let settings = app.settings()?.used_by(&principal)?;
    let backend = open_local(&settings.places.workspace, local_options(&settings))?;
    let builder = HostBuilder::to_look(settings)?;
    app.notes(builder.notes());
    let words = match (tool, given) {
        ("bash", []) => vec![ANY_COMMAND.to_owned()],
        (_, given) => given.to_vec(),
    };
    let assembly = builder.assemble().await?;
    assembly.mount_to_look()?;
    let tools = assembly.runtime.registry().snapshot();
    let arguments = arguments::for_tool(&tools, tool, &words)?;
    let request = call::request(tool.to_owned(), arguments, &principal, None);
    let plan = match assembly.runtime.plan(request).await {
        Ok(foreseen) => foreseen.plan,
        Err(outcome) => {
            // It would not even get a plan; that is the answer.
            let view = OutcomeView::of(&outcome);
            match app.output.format() {
                Format::Json => app.output.json(&view)?,
                Format::Text => app.output.note(&view.refusal()),
            }
            return Ok(Exit::of_call(&outcome));
        }
    };
    let command = plan.accesses().iter().find_map(|access| match access {
        Access::Command(access) => Some(access.clone()),
        _ => None,
    });
    let text = match (command, plan.tier()) {
        (Some(_), Tier::Host) => format!(
            "tier host\n\n`{tool}` runs on this machine without a sandbox, because the configuration says \
             sandbox = \"off\"\n"
        ),
        (Some(access), tier) => {
            let spawn = Spawn::new(access.command, access.cwd, tier);
            let plan_of = tokio::task::spawn_blocking(move || backend.plan_sandbox(&spawn)).await;
            let sandbox = plan_of
                .map_err(|error| Stop::new(Exit::Failed, error.to_string(), "try again"))?
                .map_err(|error| Stop::new(Exit::Failed, error.to_string(), "see `haft doctor`"))?;
            format!("{sandbox}{}", hosts(plan.egress().map(Arc::as_ref)))
        }
        (None, tier) => format!(
            "tier {tier}\n\n`{tool}` starts no process: its files are opened beneath the workspace, which \
             the kernel confines\n"
        ),
    };
    match app.output.format() {
        Format::Json => app.output.json(&json!({
            "tool": tool,
            "tier": plan.tier().as_str(),
            "sandbox": text,
        }))?,
        Format::Text => app.output.page(&Page::new().block(text))?,
    }
    Ok(Exit::Ok)
}

/// The hosts that can be reached through the proxy.
fn hosts(rules: Option<&EgressRules>) -> String {
    let Some(rules) = rules else {
        return String::new();
    };
    let mut text = "\nhosts\n".to_owned();
    for (word, rules) in [("allowed", &rules.allow), ("denied", &rules.deny)] {
        for rule in rules {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  {word:<8} {rule}");
        }
    }
    text
}
