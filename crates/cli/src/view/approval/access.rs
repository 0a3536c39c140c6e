//! One access of a plan, in words: a verb and its object.

use std::fmt::Write as _;

use serde_json::Value;

use super::{MARGIN, items, text};
use crate::terminal::{Page, Style, visible};

/// Draws an access.
pub(super) fn draw(access: &Value) -> Page {
    let of = |name: &str| text(access.get(name));
    let (verb, what) = match of("kind") {
        "path" => return will(verb_of_path(access), &path(access)),
        "command" => return command(access),
        "process" => process(access),
        "host" => {
            let port = access
                .get("port")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            ("connect to", format!("{}:{port}", of("host")))
        }
        "database" => {
            let writes = access.get("writes").and_then(Value::as_bool) != Some(false);
            let verb = if writes { "change" } else { "query" };
            (verb, format!("database {}", of("source")))
        }
        "message" => ("send to", format!("{} on {}", of("target"), of("channel"))),
        "remote_tool" => ("call", format!("{} at {}", of("tool"), of("provider"))),
        // An access this version does not know is shown as recorded.
        _ => ("do", access.to_string()),
    };
    will(verb, &visible::line(&what))
}

fn will(verb: &str, what: &str) -> Page {
    Page::new()
        .styled(Style::Dim, format!("{:<10}", "will"))
        .styled(Style::Warn, format!("{verb} "))
        .styled(Style::Strong, what)
        .end()
}

fn verb_of_path(access: &Value) -> &'static str {
    match text(access.get("mode")) {
        "read" => "read",
        _ => "write",
    }
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

/// A command as it will be run: a script line by line, a program word by word.
fn command(access: &Value) -> Page {
    let run = access.get("command");
    let cwd = visible::line(text(access.get("cwd")));
    let place = if cwd.is_empty() || cwd == "." {
        String::new()
    } else {
        format!("   (in {cwd})")
    };
    let Some(script) = run.and_then(|run| run.get("shell")).and_then(Value::as_str) else {
        let argv = items(run.and_then(|run| run.get("argv")));
        let words: Vec<String> = argv.map(|word| quoted(text(Some(word)))).collect();
        return will("run", &format!("{}{place}", words.join(" ")));
    };
    let lines = visible::lines(script);
    if let [one] = lines.as_slice() {
        return will("run", &format!("{one}{place}"));
    }
    let mut page = will(
        "run",
        &format!("a script of {} lines{place}", script.split('\n').count()),
    );
    for line in lines {
        page = page
            .styled(Style::Dim, format!("{MARGIN}│ "))
            .styled(Style::Strong, line)
            .end();
    }
    page
}

/// A word, quoted so that its start and its end are visible.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", visible::line(word).replace('\'', r"'\''"))
}

fn process(access: &Value) -> (&'static str, String) {
    let id = text(access.get("id"));
    let act = access.get("act").unwrap_or(&Value::Null);
    let (verb, mut what) = match act {
        Value::String(act) if act == "close_input" => ("close the input of", id.to_owned()),
        Value::String(act) if act == "kill" => ("end", id.to_owned()),
        Value::Object(act) => match act.iter().next() {
            Some((name, Value::String(typed))) if name == "write" => {
                ("type", format!("{typed:?} into {id}"))
            }
            Some((name, Value::String(signal))) if name == "signal" => {
                ("signal", format!("{id} with {signal}"))
            }
            Some((name, size)) if name == "resize" => {
                ("resize", format!("{id} to {size} rows and columns"))
            }
            Some(_) | None => ("do", format!("{act:?} to {id}")),
        },
        other => ("do", format!("{other} to {id}")),
    };
    if let Some(command) = access.pointer("/running/command").and_then(Value::as_str) {
        what = format!("{what}, which runs: {command}");
    }
    (verb, what)
}
