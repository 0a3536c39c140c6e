//! `haft grants list`: the standing approvals that have not ended.

use clap::Args;

use super::{App, Exit, GrantPlace, Stop, living, place_of};
use crate::{
    commands::scope::WorkspaceArgs,
    terminal::{Format, Page, Style},
    view::{
        call::prefix_length,
        grant::{GrantView, lasting, place},
    },
};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    workspaces: WorkspaceArgs,
}

/// Runs the command.
pub(super) async fn run(args: ListArgs, app: &App) -> Result<Exit, Stop> {
    let ledger = app.record().await?;
    let scope = app.scope_of(args.workspaces, &ledger).await?;
    let mut grants = Vec::new();
    let mut elsewhere = 0_usize;
    for grant in living(&ledger).await? {
        if !scope.is_everywhere()
            && place_of(&grant, &ledger, &scope).await? == GrantPlace::Elsewhere
        {
            elsewhere += 1;
        } else {
            grants.push(grant);
        }
    }
    super::close(&ledger).await?;
    if app.output.format() == Format::Json {
        let views: Vec<GrantView> = grants.iter().map(GrantView::of).collect();
        app.output.json_list(&views)?;
        return Ok(Exit::Ok);
    }
    if elsewhere > 0 {
        let text = format!("{elsewhere} more in other workspaces; `--all-workspaces` lists them");
        app.output.note(&Page::new().styled(Style::Dim, text).end());
    }
    if grants.is_empty() {
        let text = "no standing approvals; `haft grants suggest` suggests some";
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let ids: Vec<String> = grants.iter().map(|grant| grant.id.to_string()).collect();
    let shown = prefix_length(&ids);
    let mut page = Page::new();
    for grant in &grants {
        let id: String = grant.id.to_string().chars().take(shown).collect();
        page = page
            .styled(Style::Strong, id)
            .text(format!("  {}", grant.rule))
            .styled(
                Style::Dim,
                format!(
                    "  {}, {}; by {}",
                    place(&grant.scope),
                    lasting(grant),
                    grant.made_by
                ),
            )
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}
