//! `haft mcp status`: every mounted server, in every Haft that runs, and those that run nowhere.

use clap::Args;
use haft_mcp::pin::Store as _;

use super::{super::App, known::known};
use crate::{
    config::{Settings, failures::Failures, mcp::ServerSettings, pins::FilePins, running},
    exit::Exit,
    mounted::origin,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::mounted::{RefusedView, ServerView, era},
};

/// Show the mounted servers and how they are
#[derive(Debug, Args)]
pub(super) struct StatusArgs {}

/// Runs the command.
pub(super) fn run(_args: &StatusArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    app.notes(&settings.notes);
    let views = servers(&settings);
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

/// Every server that is configured, in every Haft that runs it, or as it is at rest.
pub(crate) fn servers(settings: &Settings) -> Vec<ServerView> {
    let data_dir = &settings.places.data_dir;
    let running: Vec<ServerView> = running::read(data_dir)
        .into_iter()
        .filter_map(|file| serde_json::from_value(file.get("servers")?.clone()).ok())
        .flat_map(|servers: Vec<ServerView>| servers)
        .collect();
    let store = FilePins::new(data_dir);
    let failures = Failures::new(data_dir);
    let mut views = Vec::new();
    for server in &settings.mcp.servers {
        let id = server.id.as_str();
        let before = views.len();
        views.extend(running.iter().filter(|one| one.server == id).cloned());
        if views.len() == before {
            views.push(at_rest(server, &store, &failures));
        }
    }
    views
}

/// A server that no Haft runs.
fn at_rest(server: &ServerSettings, store: &FilePins, failures: &Failures) -> ServerView {
    let failed = failures.last(&server.id, origin(server).digest());
    let failed = failed.filter(|_| server.enabled);
    let mut view = ServerView {
        server: server.id.to_string(),
        state: if server.enabled { "known" } else { "off" }.to_owned(),
        pid: None,
        since_us: failed.as_ref().map(|failed| failed.at_us),
        again_us: None,
        era: None,
        tools: 0,
        new: 0,
        changed: 0,
        refused: Vec::new(),
        lapsed: None,
        last_error: failed.as_ref().map(|failed| failed.why.clone()),
    };
    if failed.is_some() {
        "failed".clone_into(&mut view.state);
    }
    let known = match known(server, store) {
        Ok(Some(known)) => known,
        Ok(None) => {
            if server.enabled && failed.is_none() {
                "never started".clone_into(&mut view.state);
            }
            return view;
        }
        Err(why) => {
            view.last_error = Some(why);
            return view;
        }
    };
    let seen = store.seen(&server.id, &origin(server)).ok().flatten();
    view.era = seen.map(|seen| era(seen.era));
    view.tools = known.accepted_tools();
    view.new = known.unaccepted();
    view.changed = known.changed();
    view.lapsed = known.pins.lapsed.as_ref().map(ToString::to_string);
    view.refused = known.refused.iter().map(RefusedView::of).collect();
    if server.enabled && failed.is_none() && known.pins.is_new_server() && view.new > 0 {
        "quarantined".clone_into(&mut view.state);
    }
    view
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
                view.since_in_words(),
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
