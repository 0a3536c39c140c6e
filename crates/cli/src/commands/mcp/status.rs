//! `haft mcp status`: every mounted server, in every running Haft, and those that run nowhere.

use clap::Args;
use haft_contract::host::Timestamp;
use haft_host::mount::status::{self, ServerView};

use super::super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::time,
};

/// Show the mounted servers and how they are
#[derive(Debug, Args)]
pub(super) struct StatusArgs {}

/// Runs the command.
pub(super) fn run(_args: &StatusArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    app.notes(&settings.notes);
    let views = status::servers(&settings);
    if app.output.format() == Format::Json {
        app.output.json(&views)?;
        return Ok(Exit::Ok);
    }
    if views.is_empty() {
        let text =
            "no MCP server is mounted; add [[mcp.servers]] to haft.toml, or `haft mcp import`";
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    app.output.page(&table(&views))?;
    Ok(Exit::Ok)
}

fn table(views: &[ServerView]) -> Page {
    let rows: Vec<[String; 5]> = views
        .iter()
        .map(|view| {
            [
                view.server.clone(),
                view.state.clone(),
                view.tools_in_words(),
                view.era.clone().unwrap_or_else(|| "-".to_owned()),
                since_in_words(view),
            ]
        })
        .collect();
    let heads = ["server", "state", "tools", "era", "since"].map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&heads]);
        let widths = cells.filter_map(|row| Some(row.get(column)?.chars().count()));
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths);
        let padded = padded.map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ")
    };
    let mut page = Page::new().styled(Style::Dim, line(&heads)).end();
    for (row, view) in rows.iter().zip(views) {
        page = page.text(line(row)).end();
        if let Some(error) = &view.last_error {
            page = page.styled(Style::Bad, "  ").text(error).end();
        }
        if let Some(lapsed) = &view.lapsed {
            page = page.styled(Style::Bad, format!("  {lapsed}")).end();
        }
        for refused in &view.refused {
            let text = format!(
                "  refused {} `{}`: {}",
                refused.kind, refused.name, refused.why
            );
            page = page.styled(Style::Warn, text).end();
        }
        let id = &view.server;
        if view.state == "login needed" {
            let text = format!("  `haft mcp login {id}` logs you in");
            page = page.styled(Style::Dim, text).end();
        }
        if view.new + view.changed > 0 {
            let text = format!("  `haft mcp review {id}` shows what waits for you");
            page = page.styled(Style::Dim, text).end();
        }
    }
    page
}

/// How long a server has been in its state.
fn since_in_words(view: &ServerView) -> String {
    view.since_us
        .map_or_else(|| "-".to_owned(), |since| time::local(Timestamp(since)))
}
