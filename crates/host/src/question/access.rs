//! One access of a plan, in words: a verb, which begins the line, and its object.

use std::fmt::Write as _;

use serde_json::Value;

use super::{MARGIN, items, text};
use crate::screen_text::{TextLine, Tone, field, visible};

/// Draws an access that the headline does not show.
pub(super) fn draw(access: &Value) -> Vec<TextLine> {
    let mut line = field(verb(access), "");
    line.pop();
    line.push((Tone::Strong, object(access)));
    let mut lines = vec![line];
    lines.extend(script(access));
    lines
}

/// What the headline leaves out about its own access: the lines of a script.
pub(super) fn script(access: &Value) -> Vec<TextLine> {
    let Some(script) = access.pointer("/command/shell").and_then(Value::as_str) else {
        return Vec::new();
    };
    let lines = visible::lines(script);
    if lines.len() < 2 {
        return Vec::new();
    }
    let behind_margin =
        |line: String| vec![(Tone::Dim, format!("{MARGIN}│ ")), (Tone::Strong, line)];
    lines.into_iter().map(behind_margin).collect()
}

fn verb(access: &Value) -> &'static str {
    match text(access.get("kind")) {
        "path" => match text(access.get("mode")) {
            "read" => "reads",
            _ => "writes",
        },
        "command" => "runs",
        "process" => "process",
        "host" => "connects",
        "database" => match access.get("writes").and_then(Value::as_bool) {
            Some(false) => "queries",
            Some(true) | None => "changes",
        },
        "message" => "sends to",
        "remote_tool" => "calls",
        "custom" => "uses",
        _ => "does",
    }
}

/// What an access is about, on one line.
pub(super) fn object(access: &Value) -> String {
    let of = |name: &str| text(access.get(name));
    let what = match of("kind") {
        "path" => return path(access),
        "command" => return command(access),
        "process" => process(access),
        "host" => {
            let port = access
                .get("port")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            format!("{}:{port}", of("host"))
        }
        "database" => format!("database {}", of("source")),
        "message" => format!("{} on {}", of("target"), of("channel")),
        "remote_tool" => format!("{} at {}", of("tool"), of("provider")),
        "custom" => format!("{} {}", of("name"), of("target")),
        // An access this version does not know is shown as recorded.
        _ => access.to_string(),
    };
    visible::line(&what)
}

fn path(access: &Value) -> String {
    let named = text(access.get("path"));
    let mut what = visible::line(named);
    if text(access.get("scope")) == "tree" {
        what.push_str(" and everything beneath it");
    }
    if let Some(resolved) = access.get("resolved").and_then(Value::as_str)
        && resolved != named
    {
        // Writing to a `String` cannot fail.
        let _ = write!(what, " (which leads to {})", visible::line(resolved));
    }
    if let Some(why) = access.get("protected").and_then(Value::as_str) {
        let _ = write!(what, " (protected: {})", visible::line(why));
    }
    what
}

/// A command as it will be run: a script of one line, or its length; a program word by word.
fn command(access: &Value) -> String {
    let run = access.get("command");
    let cwd = visible::line(text(access.get("cwd")));
    let mut place = String::new();
    if !(cwd.is_empty() || cwd == ".") {
        place = format!("   (in {cwd})");
    }
    if access.get("stays").and_then(Value::as_bool) == Some(true) {
        place.push_str("   (goes on running after the call)");
    }
    let Some(script) = run.and_then(|run| run.get("shell")).and_then(Value::as_str) else {
        let argv = items(run.and_then(|run| run.get("argv")));
        let words: Vec<String> = argv.map(|word| quoted(text(Some(word)))).collect();
        return format!("{}{place}", words.join(" "));
    };
    match visible::lines(script).as_slice() {
        [one] => format!("{one}{place}"),
        _ => format!("a script of {} lines{place}", script.split('\n').count()),
    }
}

/// A word, quoted so that its start and its end are visible.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", visible::line(word).replace('\'', r"'\''"))
}

fn process(access: &Value) -> String {
    let id = text(access.get("id"));
    let act = access.get("act").unwrap_or(&Value::Null);
    let mut what = match act {
        Value::String(act) if act == "close_input" => format!("close the input of {id}"),
        Value::String(act) if act == "kill" => format!("end {id}"),
        Value::Object(act) => match act.iter().next() {
            Some((name, Value::String(typed))) if name == "write" => {
                format!("type {typed:?} into {id}")
            }
            Some((name, Value::String(signal))) if name == "signal" => {
                format!("signal {id} with {signal}")
            }
            Some((name, size)) if name == "resize" => {
                format!("resize {id} to {size} rows and columns")
            }
            Some(_) | None => format!("do {act:?} to {id}"),
        },
        other => format!("do {other} to {id}"),
    };
    if let Some(command) = access.pointer("/running/command").and_then(Value::as_str) {
        what = format!("{what}, which runs: {command}");
    }
    what
}
