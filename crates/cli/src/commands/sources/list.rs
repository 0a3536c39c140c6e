//! `haft sources list`: which databases there are. Reads the configuration and connects to nothing.

use clap::Args;
use haft_host::sources::SourceView;
use serde_json::json;

use super::super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// What `haft sources list` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft sources list
  haft sources list --json")]
pub(crate) struct ListArgs {}

/// Runs the command.
pub(super) fn run(_: &ListArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    app.notes(&settings.notes);
    let sources: Vec<SourceView> = settings.databases.iter().map(SourceView::of).collect();
    if app.output.format() == Format::Json {
        let sources = sources.iter().map(|source| {
            json!({
                "name": source.name,
                "type": source.engine,
                "writable": source.writable,
                "place": source.place,
            })
        });
        let sources: Vec<_> = sources.collect();
        app.output.json(&json!({ "sources": sources }))?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for source in &sources {
        let takes = if source.writable {
            "queries and changes"
        } else {
            "queries"
        };
        page = page
            .styled(Style::Strong, &source.name)
            .text(format!("  {}  {takes}  {}", source.engine, source.place))
            .end();
    }
    if sources.is_empty() {
        page = page
            .text("no database is configured; `haft sources add` names one")
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}
