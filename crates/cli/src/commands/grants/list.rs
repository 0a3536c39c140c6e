//! `haft grants list`: the standing approvals that have not ended.

use super::{App, Exit, Stop, living, open};
use crate::{
    terminal::{Format, Page, Style},
    view::{
        call::prefix_length,
        grant::{GrantView, lasting, place},
    },
};

/// Runs the command.
pub(super) async fn run(app: &App) -> Result<Exit, Stop> {
    let ledger = open(app).await?;
    let grants = living(&ledger).await?;
    super::close(&ledger).await?;
    if app.output.format() == Format::Json {
        let views: Vec<GrantView> = grants.iter().map(GrantView::of).collect();
        app.output.json(&views)?;
        return Ok(Exit::Ok);
    }
    if grants.is_empty() {
        let text = "no standing approvals; `haft grants suggest` says which would be worth having";
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
