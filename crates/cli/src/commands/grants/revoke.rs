//! `haft grants revoke`: ends standing approvals at once, even for calls about to start.

use clap::Args;
use haft_contract::TenantId;
use haft_contract::host::{Grant, Ledger as _};
use serde_json::json;

use super::{App, Exit, GrantPlace, Stop, living, place_of};
use crate::{
    commands::scope::WorkspaceArgs,
    terminal::{Format, Page, Style},
};

/// How many candidates of an ambiguous id are named.
const MAX_NAMED: usize = 5;

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The ids, or the beginnings of them, as `haft grants list` shows them
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,
    /// End all that hold only in this workspace
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With `--all`: end those of every workspace, and those that hold everywhere
    #[arg(long, requires = "all")]
    all_workspaces: bool,
}

/// Runs the command.
pub(super) async fn run(args: &RevokeArgs, app: &App) -> Result<Exit, Stop> {
    let ledger = app.record().await?;
    let living = living(&ledger).await?;
    let chosen = if args.all {
        let workspaces = WorkspaceArgs {
            all_workspaces: args.all_workspaces,
        };
        let scope = app.scope_of(workspaces, &ledger).await?;
        let mut chosen = Vec::new();
        for grant in &living {
            let place = place_of(grant, &ledger, &scope).await?;
            if scope.is_everywhere() || place == GrantPlace::Here {
                chosen.push(grant);
            }
        }
        let left = living.len() - chosen.len();
        if left > 0 {
            let text = format!(
                "{left} that also or only hold elsewhere remain; `--all-workspaces` ends them"
            );
            app.notes([&text]);
        }
        chosen
    } else {
        let mut chosen: Vec<&Grant> = Vec::new();
        for id in &args.ids {
            chosen.push(find(&living, id)?);
        }
        chosen
    };
    let store = ledger.grants();
    let mut ended = Vec::new();
    for grant in chosen {
        let had = store.revoke(&TenantId::local(), grant.id).await;
        // Someone may have been faster, or its time may be up; either way it has ended.
        had.map_err(|error| Stop::ledger(&error))?;
        ended.push(grant);
    }
    super::close(&ledger).await?;
    if app.output.format() == Format::Json {
        let ids: Vec<String> = ended.iter().map(|grant| grant.id.to_string()).collect();
        app.output.json(&json!({"revoked": ids}))?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for grant in &ended {
        page = page
            .styled(Style::Good, "ended")
            .text(format!(": {}", grant.rule))
            .end();
    }
    if ended.is_empty() {
        page = page.text("there was nothing to end").end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

fn find<'g>(living: &'g [Grant], id: &str) -> Result<&'g Grant, Stop> {
    let wanted = id.to_ascii_lowercase();
    let fits = |grant: &&Grant| !wanted.is_empty() && grant.id.to_string().starts_with(&wanted);
    let found: Vec<&Grant> = living.iter().filter(fits).collect();
    match found.as_slice() {
        [grant] => Ok(grant),
        [] => Err(Stop::new(
            Exit::NotFound,
            format!("there is no standing approval `{id}`"),
            "`haft grants list` shows those that have not ended",
        )),
        several => {
            let named = several.iter().take(MAX_NAMED);
            let named: Vec<String> = named.map(|grant| grant.id.to_string()).collect();
            Err(Stop::new(
                Exit::NotFound,
                format!("`{id}` is the beginning of {} ids", several.len()),
                format!("give more of it: {}", named.join(", ")),
            ))
        }
    }
}
