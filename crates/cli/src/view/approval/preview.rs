//! One part of a preview: a diff, a command with what it may touch, a host, rows, or words.

use serde_json::Value;

use super::{MARGIN, items, text};
use crate::{
    terminal::{Page, Style, visible},
    view::decision::verdict_style,
};

/// Draws a part.
pub(super) fn draw(part: &Value) -> Page {
    match text(part.get("kind")) {
        "diff" => diff(part),
        "command" => command(part),
        "host" => {
            let host = visible::line(text(part.get("host")));
            let number = part.get("port").and_then(Value::as_u64).unwrap_or_default();
            Page::new().field("reaches", format!("{host}:{number}"))
        }
        "rows" => {
            let source = visible::line(text(part.get("source")));
            let rows = match part.get("affected").and_then(Value::as_u64) {
                Some(1) => "1 row".to_owned(),
                Some(rows) => format!("{rows} rows"),
                None => "an unknown number of rows".to_owned(),
            };
            Page::new().field("changes", format!("{rows} of {source}"))
        }
        "note" => {
            let lines = visible::lines(text(part.get("text")));
            Page::new().field_block("note", &lines.join("\n"))
        }
        // A part this version does not know is shown as recorded.
        _ => Page::new().field("further", visible::line(&part.to_string())),
    }
}

fn diff(part: &Value) -> Page {
    let mut heading = visible::line(text(part.get("path")));
    if let Some(to) = part.get("to").and_then(Value::as_str) {
        heading = format!("{heading} to {}", visible::line(to));
    }
    let change = match text(part.get("change")) {
        "create" => "creates",
        "change" => "changes",
        "remove" => "removes",
        "move" => "moves",
        _ => "touches",
    };
    let mut page = Page::new()
        .styled(Style::Dim, format!("{change:<10}"))
        .styled(Style::Strong, heading)
        .end();
    if let Some(note) = part.get("note").and_then(Value::as_str) {
        page = page.field("note", visible::line(note));
    }
    let whole = text(part.get("text"));
    if whole.is_empty() {
        return page;
    }
    for line in visible::lines(whole.strip_suffix('\n').unwrap_or(whole)) {
        let style = match line.chars().next() {
            Some('+') => Style::Good,
            Some('-') => Style::Bad,
            Some('@') => Style::Dim,
            Some(_) | None => Style::Plain,
        };
        page = page
            .styled(Style::Dim, format!("{MARGIN}│ "))
            .styled(style, line)
            .end();
    }
    page
}

fn command(part: &Value) -> Page {
    let verdict = text(part.get("verdict"));
    Page::new()
        .styled(Style::Dim, "command   ")
        .styled(Style::Strong, visible::line(text(part.get("text"))))
        .styled(Style::Dim, "   policy: ")
        .styled(verdict_style(verdict), visible::line(verdict))
        .end()
        .page(touches(part))
}

/// What a command may touch, and, if it is not understood, why.
pub(super) fn touches(part: &Value) -> Page {
    let mut page = Page::new();
    let margin = |page: Page| page.styled(Style::Dim, format!("{MARGIN}│ "));
    for touched in items(part.get("touches")) {
        let how = text(touched.get("how"));
        let what = visible::line(text(touched.get("what")));
        let style = if how == "reads" {
            Style::Plain
        } else {
            Style::Warn
        };
        page = margin(page).styled(style, format!("{how} {what}")).end();
    }
    if let Some(why) = part.get("opaque").and_then(Value::as_str) {
        page = margin(page)
            .styled(Style::Bad, "not fully understood: ")
            .styled(Style::Warn, visible::line(why))
            .end();
    }
    if let Some(what) = part.get("unbound").and_then(Value::as_str) {
        page = margin(page)
            .styled(Style::Bad, "not bound to your answer: ")
            .styled(Style::Warn, visible::line(what))
            .end();
    }
    page
}
