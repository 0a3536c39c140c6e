//! `haft show`: everything on record about one call.

use clap::Args;
use haft_contract::TenantId;
use haft_contract::host::{History as _, StoredEvent};
use haft_host::Record;
use haft_tools::undo::{FoldedChanges, git_lines};
use serde::Serialize;
use serde_json::Value;

use super::{App, lookup};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{
        call::{CallView, EventView, outcome_style},
        time,
    },
};

/// How many lines of a long text are shown from its start and from its end.
const HEAD_LINES: usize = 20;
const TAIL_LINES: usize = 5;

/// The margin before the further lines of a text.
const MARGIN: &str = "                       ";

/// Show everything recorded about one call
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The call's id, the beginning of it, or `last`
    #[arg(default_value = "last")]
    id: String,
}

/// Everything about a call, for programs.
#[derive(Debug, Serialize)]
struct ShowView {
    #[serde(flatten)]
    call: CallView,
    /// What it did to the git repository.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    git: Vec<String>,
    events: Vec<EventView>,
}

/// Runs the command.
pub(crate) async fn run(args: &ShowArgs, app: &App) -> Result<Exit, Stop> {
    let Record {
        ledger, recovery, ..
    } = Record::open_to_look(&app.places()?).await?;
    app.recovered(&recovery);
    let call = lookup::call(&ledger, &args.id).await?;
    let events = ledger
        .events(&TenantId::local(), call.id)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    let changes = ledger.changes(&TenantId::local(), &[call.id]).await;
    let changes = changes.map_err(|error| Stop::ledger(&error))?;
    let git = git_lines(&FoldedChanges::of(&changes));
    let view = CallView::of(&call);
    if app.output.format() == Format::Json {
        let events = events.iter().map(EventView::of).collect();
        app.output.json(&ShowView {
            call: view,
            git,
            events,
        })?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new()
        .styled(Style::Strong, &view.call)
        .end()
        .field("tool", &view.tool)
        .styled(Style::Dim, "outcome   ")
        .styled(outcome_style(call.terminal), &view.outcome)
        .end()
        .field("opened", time::local(call.opened))
        .field("by", format!("agent {} for {}", view.agent, view.user))
        .field(
            "session",
            format!("{} ({})", view.session, view.session_kind),
        );
    for line in git {
        page = page.field("git", line);
    }
    page = page.end();
    let mut before = call.opened;
    for event in &events {
        let later = u64::try_from(event.at.since(before).as_micros()).unwrap_or(u64::MAX);
        before = event.at;
        page = page
            .styled(
                Style::Dim,
                format!("{:>5}  +{:<9}", event.sequence, time::duration(later)),
            )
            .styled(Style::Strong, &event.kind)
            .end()
            .page(body(event, &view.call));
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// An event's body, one line per field; multi-line text is indented as a block.
fn body(event: &StoredEvent, call: &str) -> Page {
    let mut page = Page::new();
    let Value::Object(fields) = &event.body else {
        return page;
    };
    for (name, value) in fields {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if name == "v" || empty {
            continue;
        }
        page = page
            .styled(Style::Dim, format!("         {name:<13} "))
            .block(excerpt(&indented(value), call))
            .end();
    }
    page
}

/// The start and the end of a long text, and where the rest is.
fn excerpt(text: &str, call: &str) -> String {
    let lines = text.lines().count();
    if lines <= HEAD_LINES + TAIL_LINES {
        return text.to_owned();
    }
    let head = text.lines().take(HEAD_LINES);
    let left_out = format!(
        "{MARGIN}… {} lines, `haft call read_output call={call}` and `--json` have them",
        lines - HEAD_LINES - TAIL_LINES
    );
    let tail = text.lines().skip(lines - TAIL_LINES);
    let shown: Vec<&str> = head.chain([left_out.as_str()]).chain(tail).collect();
    shown.join("\n")
}

fn indented(value: &Value) -> String {
    let below = format!("\n{MARGIN}");
    match value {
        Value::String(text) => text.replace('\n', &below),
        Value::Array(items) => items.iter().map(indented).collect::<Vec<_>>().join(&below),
        Value::Object(fields) => match fields.get("text").and_then(Value::as_str) {
            Some(text) if fields.contains_key("type") => text.replace('\n', &below),
            _ => value.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
