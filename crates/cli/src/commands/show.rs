//! `haft show`: everything that is on record about one call.

use clap::Args;
use haft_contract::host::{History as _, StoredEvent};
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
    wire::{self, Record},
};

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
    events: Vec<EventView>,
}

/// Runs the command.
pub(crate) async fn run(args: &ShowArgs, app: &App) -> Result<Exit, Stop> {
    let Record { ledger, recovery } = wire::open_record(&app.places()?).await?;
    app.recovered(&recovery);
    let call = lookup::call(&ledger, &args.id).await?;
    let events = ledger
        .events(&lookup::tenant()?, call.id)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    let view = CallView::of(&call);
    if app.output.format() == Format::Json {
        let events = events.iter().map(EventView::of).collect();
        app.output.json(&ShowView { call: view, events })?;
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
        )
        .end();
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
            .page(body(event));
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// An event's body, one line a field; text of several lines is indented whole.
fn body(event: &StoredEvent) -> Page {
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
            .block(indented(value))
            .end();
    }
    page
}

fn indented(value: &Value) -> String {
    const MARGIN: &str = "\n                       ";
    match value {
        Value::String(text) => text.replace('\n', MARGIN),
        Value::Array(items) => items.iter().map(indented).collect::<Vec<_>>().join(MARGIN),
        Value::Object(fields) => match fields.get("text").and_then(Value::as_str) {
            Some(text) if fields.contains_key("type") => text.replace('\n', MARGIN),
            _ => value.to_string(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
