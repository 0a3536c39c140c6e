//! `haft grants suggest`: finds in the record what this person approves repeatedly, and says which
//! standing approval would save the question. Decides with today's rules and grants, so what is
//! already allowed, or cannot be granted, is never suggested.

use haft_contract::TenantId;
use std::sync::Arc;

use clap::Args;
use haft_host::{
    HostBuilder, WorkspaceSource,
    grant_history::{ApprovalHistory, MIN_APPROVALS},
    relative_time::RelativeTime,
};

use super::{App, Exit, Stop, now};
use crate::{
    args::IdentityArgs,
    terminal::{Format, Page, Style},
};

#[derive(Debug, Args)]
pub(super) struct SuggestArgs {
    /// How far back to look
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: RelativeTime,
}

/// Runs the command.
pub(super) async fn run(args: &SuggestArgs, app: &App) -> Result<Exit, Stop> {
    let principal = IdentityArgs::default().principal(&app.env)?;
    let settings = app.settings()?.used_by(&principal)?;
    let operations = WorkspaceSource::of(&settings).open().await?;
    let workspace = operations.workspace_id();
    let assembly = HostBuilder::to_look(settings)?.assemble_for_lint().await?;
    assembly.mount_to_look()?;
    let ledger = app.record().await?;
    let grants = super::living(&ledger).await?;
    let history = ApprovalHistory {
        policy: Arc::clone(&assembly.policy),
        tools: assembly.runtime.registry().snapshot(),
        workspace,
        grants,
        principal,
    };
    let (since, now) = (args.since.before(now()), now());
    let suggestions = history
        .suggestions(&ledger, &TenantId::local(), since, now)
        .await;
    let suggestions = suggestions.map_err(|error| Stop::ledger(&error))?;
    super::close(&ledger).await?;
    if app.output.format() == Format::Json {
        app.output.json(&suggestions)?;
        return Ok(Exit::Ok);
    }
    if suggestions.is_empty() {
        let text = format!(
            "nothing to suggest: you approved nothing that can be granted {MIN_APPROVALS} times or more since then"
        );
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for suggestion in &suggestions {
        page = page
            .text(format!("you approved {} ", what(&suggestion.rules)))
            .styled(Style::Strong, format!("{} times", suggestion.approved))
            .text(": allow it in this workspace?")
            .end()
            .styled(Style::Dim, "  means  ")
            .text(&suggestion.meaning)
            .end()
            .styled(Style::Dim, "  run    ")
            .styled(Style::Strong, &suggestion.command)
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// Rules in a person's words: `cargo test …`.
fn what(rules: &[String]) -> String {
    let named: Vec<String> = rules
        .iter()
        .map(|rule| {
            let inner = rule
                .strip_prefix("bash(")
                .and_then(|rule| rule.strip_suffix(')'));
            let text = inner.unwrap_or(rule);
            let text = text.strip_suffix(" *").map(|words| format!("{words} …"));
            format!(
                "`{}`",
                text.unwrap_or_else(|| inner.unwrap_or(rule).to_owned())
            )
        })
        .collect();
    named.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_named_as_people_name_commands() {
        let rules = |rules: &[&str]| {
            rules
                .iter()
                .map(|rule| (*rule).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(what(&rules(&["bash(cargo test *)"])), "`cargo test …`");
        assert_eq!(
            what(&rules(&["bash(a)", "write(src/**)"])),
            "`a` and `write(src/**)`"
        );
    }
}
