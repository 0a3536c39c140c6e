//! One part of a preview: a diff, a command with what it may touch, a host, rows, or words.

use serde_json::Value;

use super::{MARGIN, items, text, warning};
use crate::screen_text::{TextLine, Tone, field, field_block, visible};

/// Draws a part.
pub(super) fn draw(part: &Value) -> Vec<TextLine> {
    match text(part.get("kind")) {
        "diff" => {
            let path = visible::line(text(part.get("path")));
            let mut lines = vec![heading(&format!("{path}{}", change_in_words(part)))];
            lines.extend(diff(part));
            lines
        }
        "command" => command(part),
        "host" => {
            let host = visible::line(text(part.get("host")));
            let number = part.get("port").and_then(Value::as_u64).unwrap_or_default();
            vec![field("reaches", &format!("{host}:{number}"))]
        }
        "rows" => {
            let source = visible::line(text(part.get("source")));
            let rows = match part.get("affected").and_then(Value::as_u64) {
                Some(1) => "1 row".to_owned(),
                Some(rows) => format!("{rows} rows"),
                None => "an unknown number of rows".to_owned(),
            };
            vec![field("changes", &format!("{rows} of {source}"))]
        }
        "note" => {
            let lines = visible::lines(text(part.get("text")));
            field_block("note", lines.iter().map(String::as_str))
        }
        // A part this version does not know is shown as recorded.
        _ => vec![field("further", &visible::line(&part.to_string()))],
    }
}

fn heading(path: &str) -> TextLine {
    let mut line = field("file", "");
    line.pop();
    line.push((Tone::Strong, path.to_owned()));
    line
}

/// What happens to a file, behind its name.
pub(super) fn change_in_words(part: &Value) -> String {
    let to = part.get("to").and_then(Value::as_str);
    let change = match (text(part.get("change")), to) {
        ("change", None) => return String::new(),
        ("create", None) => "new file".to_owned(),
        ("remove", None) => "removed".to_owned(),
        ("move", Some(to)) => format!("moved to {}", visible::line(to)),
        (other, Some(to)) => format!("{} to {}", visible::line(other), visible::line(to)),
        (other, None) => visible::line(other),
    };
    format!(" ({change})")
}

/// The note and the lines of a diff.
pub(super) fn diff(part: &Value) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if let Some(note) = part.get("note").and_then(Value::as_str) {
        lines.push(field("note", &visible::line(note)));
    }
    let whole = text(part.get("text"));
    if whole.is_empty() {
        return lines;
    }
    for line in visible::lines(whole.strip_suffix('\n').unwrap_or(whole)) {
        let tone = match line.chars().next() {
            Some('+') => Tone::Good,
            Some('-') => Tone::Bad,
            Some('@') => Tone::Dim,
            Some(_) | None => Tone::Plain,
        };
        lines.push(vec![(Tone::Dim, MARGIN.to_owned()), (tone, line)]);
    }
    lines
}

/// A command of a script with what the rules say to it, and what it may touch.
pub(super) fn command(part: &Value) -> Vec<TextLine> {
    let verdict = text(part.get("verdict"));
    let tone = match verdict {
        "allow" => Tone::Good,
        "ask" => Tone::Warn,
        _ => Tone::Bad,
    };
    let mut line = field("command", "");
    line.pop();
    line.push((Tone::Strong, visible::line(text(part.get("text")))));
    line.push((Tone::Dim, "   policy: ".to_owned()));
    line.push((tone, visible::line(verdict)));
    let mut lines = vec![line];
    lines.extend(touches(part));
    lines
}

/// What a command may touch, and, if it is not understood, why.
pub(super) fn touches(part: &Value) -> Vec<TextLine> {
    let program = text(part.get("text")).split_whitespace().next();
    let mut lines = Vec::new();
    for touched in items(part.get("touches")) {
        let (how, what) = (text(touched.get("how")), text(touched.get("what")));
        // The command itself says which program it runs.
        if how == "runs" && Some(what) == program {
            continue;
        }
        let mut line = field(&visible::line(how), &visible::line(what));
        if how != "reads"
            && let Some((tone, _)) = line.last_mut()
        {
            *tone = Tone::Warn;
        }
        lines.push(line);
    }
    if let Some(why) = part.get("opaque").and_then(Value::as_str) {
        let why = visible::line(why);
        lines.push(warning(&format!("not fully understood: {why}")));
    }
    if let Some(what) = part.get("unbound").and_then(Value::as_str) {
        let what = visible::line(what);
        lines.push(warning(&format!("not bound to your answer: {what}")));
    }
    lines
}
