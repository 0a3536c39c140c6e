//! What happens, whole, and as short as that can be: what a person must have seen before a yes
//! counts.
//!
//! Left out are ids, digests, the names of sessions, deadlines, and input that the command or the
//! change already shows; `details.rs` has them. Any other input, and any field this version does
//! not know, is shown here.

use serde_json::{Map, Value};

use super::{
    RoomForText, access, beware, details,
    headline::{diffs, strongest},
    is_built_in, items, network, preview, text, texts,
};
use crate::screen_text::{TextLine, field, field_block, visible};

/// The access fields that are drawn unchanged.
const DRAWN: &[&str] = &[
    "shell", "cwd", "path", "host", "id", "write", "source", "target", "channel",
];

/// Draws them.
pub(super) fn draw(form: &Map<String, Value>, room: RoomForText) -> Vec<TextLine> {
    let mut lines = happens(form, room);
    lines.extend(beware(form));
    lines.extend(programs(form));
    lines.extend(input(form));
    lines.extend(details::further(form));
    if !is_built_in(form) {
        let effects = details::effects(form.get("effects"));
        lines.push(field("effects", &effects));
    }
    lines.extend(place(form));
    lines.extend(behind(form));
    lines.extend(read_from(form));
    lines
}

fn happens(form: &Map<String, Value>, room: RoomForText) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let several = diffs(form).len() > 1;
    let headline = strongest(form).filter(|_| !several);
    // The headline's own script first: it is what happens.
    lines.extend(headline.map(access::script).unwrap_or_default());
    for access in items(form.get("accesses")) {
        let is_headline = headline.is_some_and(|headline| std::ptr::eq(headline, access));
        if !is_headline && !is_in_a_diff(access, form) {
            lines.extend(access::draw(access));
        }
    }
    let script = only_script(form);
    for part in items(form.get("preview")) {
        lines.extend(match text(part.get("kind")) {
            // The script above shows it, and the rules allow it.
            "command" if is_allowed(part) => Vec::new(),
            "diff" => {
                let shown = match room {
                    RoomForText::Enough => without_heading(part),
                    RoomForText::Narrow(_) => only_changes(part),
                };
                let is_headline = headline
                    .is_some_and(|access| text(access.get("path")) == text(part.get("path")));
                if is_headline {
                    preview::diff(&shown)
                } else {
                    preview::draw(&shown)
                }
            }
            "command" if script == Some(text(part.get("text"))) => match room {
                RoomForText::Narrow(_) if is_plain_command(part, form) => Vec::new(),
                RoomForText::Enough | RoomForText::Narrow(_) => preview::touches(part),
            },
            // An access shows it in the same words.
            "note" if is_shown_access(part, form) => Vec::new(),
            _ => preview::draw(part),
        });
    }
    lines
}

/// Whether a note only repeats an access that is shown: `call create_issue at github`, `payment
/// eur/120 to acme`.
fn is_shown_access(note: &Value, form: &Map<String, Value>) -> bool {
    let note = visible::line(text(note.get("text")));
    items(form.get("accesses")).any(|access| match text(access.get("kind")) {
        "remote_tool" => note == format!("call {}", access::object(access)),
        "custom" => note == access::object(access),
        _ => false,
    })
}

/// Whether a command is fully understood and sandboxed: its words, which are shown, determine what
/// it touches.
fn is_plain_command(command: &Value, form: &Map<String, Value>) -> bool {
    let confined = ["t1", "t2", "t3"].contains(&text(form.get("tier")));
    let said = |key| command.get(key).is_some_and(|value| !value.is_null());
    confined && !said("opaque") && !said("unbound")
}

/// A diff with only the changed lines, if it can be read that way.
fn only_changes(diff: &Value) -> Value {
    let Some(hunks) = hunks(diff) else {
        return diff.clone();
    };
    let stays = |line: &&str| line.starts_with(['+', '-', '\\']);
    let changes: String = hunks.split_inclusive('\n').filter(stays).collect();
    with_text(diff, changes)
}

/// A diff without the lines above its first hunk, which repeat the file name, and without the
/// position of a single hunk at the beginning of the file, which says nothing.
fn without_heading(diff: &Value) -> Value {
    let Some(hunks) = hunks(diff) else {
        return diff.clone();
    };
    let several = hunks.contains("\n@@ ");
    let at_the_beginning = ["@@ -1 ", "@@ -1,", "@@ -0,0 "];
    let begins = at_the_beginning
        .iter()
        .any(|start| hunks.starts_with(start));
    let shown = match hunks.split_once('\n') {
        Some((_, lines)) if begins && !several => lines,
        Some(_) | None => hunks,
    };
    with_text(diff, shown.to_owned())
}

/// The hunks of a diff; `None` if it does not consist of hunks, and then it is shown as it is.
fn hunks(diff: &Value) -> Option<&str> {
    let whole = text(diff.get("text"));
    let named = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
    let heading: usize = whole
        .split_inclusive('\n')
        .take_while(named)
        .map(str::len)
        .sum();
    let hunks = whole.get(heading..)?;
    hunks.starts_with("@@ ").then_some(hunks)
}

fn with_text(diff: &Value, shown: String) -> Value {
    let mut diff = diff.clone();
    if let Some(text) = diff.get_mut("text") {
        *text = Value::String(shown);
    }
    diff
}

/// Whether the rules allow a command in a script and understand all of it.
fn is_allowed(command: &Value) -> bool {
    text(command.get("verdict")) == "allow" && command.get("opaque").is_none_or(Value::is_null)
}

/// The script of a plan that is one command, which need not be shown twice.
fn only_script(form: &Map<String, Value>) -> Option<&str> {
    let mut accesses = items(form.get("accesses"));
    let only = accesses.next().filter(|_| accesses.next().is_none())?;
    only.pointer("/command/shell").and_then(Value::as_str)
}

/// Whether an access is to a file whose change is shown, with nothing more to say about it.
fn is_in_a_diff(access: &Value, form: &Map<String, Value>) -> bool {
    let path = text(access.get("path"));
    let resolved = access.get("resolved").and_then(Value::as_str);
    text(access.get("kind")) == "path"
        && text(access.get("scope")) != "tree"
        && access.get("protected").is_none_or(Value::is_null)
        && resolved.is_none_or(|resolved| resolved == path)
        && has_diff(path, form)
}

fn has_diff(path: &str, form: &Map<String, Value>) -> bool {
    diffs(form)
        .into_iter()
        .any(|diff| text(diff.get("path")) == path || diff.get("to").is_some_and(|to| to == path))
}

/// The input that nothing above shows, one line per parameter.
fn input(form: &Map<String, Value>) -> Vec<TextLine> {
    let all = form.get("input").unwrap_or(&Value::Null);
    let block = |name: &str, value: &Value| {
        let mut lines = visible::json(value);
        if let Some(first) = lines.first_mut() {
            *first = format!("{name}{first}");
        }
        field_block("input", lines.iter().map(String::as_str))
    };
    let Some(parameters) = all.as_object() else {
        return match all {
            Value::Null => Vec::new(),
            other => block("", other),
        };
    };
    if is_built_in(form) && is_shown_by_diffs(form) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (name, value) in parameters {
        if is_built_in(form) && (name == "timeout_ms" || is_drawn(value, form)) {
            continue;
        }
        match value {
            Value::Object(_) | Value::Array(_) => {
                lines.extend(block(&format!("{}: ", visible::line(name)), value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                lines.push(field("input", &visible::line(&format!("{name}: {value}"))));
            }
        }
    }
    lines
}

/// Whether a plan only changes files, and every change is shown.
fn is_shown_by_diffs(form: &Map<String, Value>) -> bool {
    let mut accesses = items(form.get("accesses")).peekable();
    accesses.peek().is_some()
        && accesses.all(|access| {
            text(access.get("kind")) == "path" && has_diff(text(access.get("path")), form)
        })
}

/// Whether an access shows this exact text.
fn is_drawn(value: &Value, form: &Map<String, Value>) -> bool {
    fn holds(access: &Value, wanted: &str) -> bool {
        match access {
            Value::Object(fields) => fields.iter().any(|(name, value)| {
                (DRAWN.contains(&name.as_str()) && value == wanted) || holds(value, wanted)
            }),
            Value::Array(items) => items.iter().any(|item| holds(item, wanted)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    let Some(wanted) = value.as_str() else {
        return value.is_null();
    };
    items(form.get("accesses")).any(|access| holds(access, wanted))
}

/// The workspace's programs that its commands run.
fn programs(form: &Map<String, Value>) -> Vec<TextLine> {
    let lines = items(form.get("programs")).map(|program| {
        let path = visible::line(text(program.get("path")));
        let now = match program.get("version").and_then(Value::as_str) {
            Some(_) => "as it is now",
            None => "which is not a file in the workspace now",
        };
        field("program", &format!("{path}, {now}"))
    });
    lines.collect()
}

/// Where it runs, and what it can reach from there; nothing for what Haft itself does to files of
/// the workspace.
fn place(form: &Map<String, Value>) -> Option<TextLine> {
    let mut places = Vec::new();
    let backend = text(form.get("backend"));
    if backend != "local" && !backend.is_empty() {
        places.push(format!("on {}", visible::line(backend)));
    }
    let is_remote = |access: &Value| text(access.get("kind")) == "remote_tool";
    if items(form.get("accesses")).any(is_remote) {
        places.push("at a mounted server; what it does there is not known".to_owned());
    } else {
        match text(form.get("tier")) {
            "in_process" => {}
            "host" => places.push("without a sandbox: it can do whatever you can".to_owned()),
            "t1" | "t2" | "t3" => {
                places.push(format!("in a sandbox; {}", network(form.get("egress"))));
            }
            other => places.push(format!("confined as {}", visible::line(other))),
        }
    }
    if places.is_empty() {
        return None;
    }
    Some(field("where", &places.join(", ")))
}

/// Who is behind the agent, if not the person.
fn behind(form: &Map<String, Value>) -> Vec<TextLine> {
    let principal = form.get("principal");
    let of = |name: &str| principal.and_then(|principal| principal.get(name));
    let mut lines: Vec<TextLine> = items(of("ancestors"))
        .map(|ancestor| field("parent", &visible::line(text(Some(ancestor)))))
        .collect();
    if let Some(channel) = of("channel").and_then(Value::as_str) {
        lines.push(field("channel", &visible::line(channel)));
    }
    lines
}

/// What the session has read, which may be why the agent asks.
fn read_from(form: &Map<String, Value>) -> Option<TextLine> {
    let read_from = texts(form, "read_from");
    if read_from.is_empty() {
        return None;
    }
    let sources = visible::line(&read_from.join(", "));
    let said = format!("{sources}; text from there may have caused this call");
    Some(field("read from", &said))
}
