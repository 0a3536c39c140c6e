//! A question as short as possible without hiding what a person needs to judge it: for the small
//! box of the agent that the person started.
//!
//! Shown are what will happen, why it is asked, where it runs and what may be behind it. Left out
//! are ids, digests, the names of sessions, deadlines, and input that the command or the change
//! already shows. Any other input, and any field this version does not know, is shown.

use serde_json::{Map, Value};

use super::{MARGIN, access, beware, effects, further, items, network, preview, read_from, text};
use crate::terminal::{Page, visible};

/// The prefix of the names of Haft's own tools.
const BUILT_IN: &str = "builtin/";

/// The access fields that are drawn unchanged.
const DRAWN: &[&str] = &[
    "shell", "cwd", "path", "host", "id", "write", "source", "target", "channel",
];

/// How much room the box has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoxSize {
    /// As many lines as needed.
    Enough,
    /// A few lines of this many columns: of a change only the changed lines, of a sandboxed command
    /// only the command, of the reason only its start.
    Narrow(usize),
}

/// Draws a question.
pub(super) fn draw(form: &Map<String, Value>, why: &str, room: BoxSize) -> Page {
    let why = match room {
        BoxSize::Enough => visible::line(why),
        BoxSize::Narrow(columns) => {
            beginning(&visible::line(why), columns.saturating_sub(MARGIN.len()))
        }
    };
    let mut page = Page::new()
        .page(tool(form))
        .page(happens(form, room))
        .page(beware(form))
        .page(programs(form))
        .page(input(form))
        .page(further(form))
        .field("why", why);
    if !is_built_in(form) {
        page = page.field("effects", effects(form.get("effects")));
    }
    page.page(place(form))
        .page(behind(form))
        .page(read_from(form))
}

/// The tool, if what happens does not show it: a tool of Haft's own without actions is what it
/// does.
fn tool(form: &Map<String, Value>) -> Page {
    let tool = visible::line(text(form.get("tool")));
    match form.get("action").and_then(Value::as_str) {
        Some(action) => {
            let action = visible::line(action);
            Page::new().field("tool", format!("{tool} ({action})"))
        }
        None if is_built_in(form) && !is_silent(form) => Page::new(),
        None => Page::new().field("tool", tool),
    }
}

/// Whether nothing shows what happens.
fn is_silent(form: &Map<String, Value>) -> bool {
    let none = |name: &str| items(form.get(name)).next().is_none();
    none("accesses") && none("preview")
}

fn is_built_in(form: &Map<String, Value>) -> bool {
    text(form.get("tool")).starts_with(BUILT_IN)
}

/// The start of one of our lines.
fn beginning(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept = line.chars().take(columns.saturating_sub(1));
    kept.chain(['…']).collect()
}

fn happens(form: &Map<String, Value>, room: BoxSize) -> Page {
    let mut page = Page::new();
    for access in items(form.get("accesses")).filter(|access| !is_in_a_diff(access, form)) {
        page = page.page(access::draw(access));
    }
    let script = only_script(form);
    for part in items(form.get("preview")) {
        page = page.page(match text(part.get("kind")) {
            // The script above shows it, and the rules allow it.
            "command" if is_allowed(part) => Page::new(),
            "diff" => match room {
                BoxSize::Enough => preview::draw(&without_heading(part)),
                BoxSize::Narrow(_) => preview::draw(&only_changes(part)),
            },
            "command" if script == Some(text(part.get("text"))) => match room {
                BoxSize::Narrow(_) if is_plain_command(part, form) => Page::new(),
                BoxSize::Enough | BoxSize::Narrow(_) => preview::touches(part),
            },
            _ => preview::draw(part),
        });
    }
    page
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
    let mut diff = without_heading(diff);
    let whole = text(diff.get("text"));
    if !whole.starts_with("@@ ") {
        return diff;
    }
    let stays = |line: &&str| line.starts_with(['+', '-', '\\']);
    let changes: String = whole.split_inclusive('\n').filter(stays).collect();
    if let Some(text) = diff.get_mut("text") {
        *text = Value::String(changes);
    }
    diff
}

/// A diff without the lines above its first hunk, which repeat the file name.
fn without_heading(diff: &Value) -> Value {
    let mut diff = diff.clone();
    let whole = text(diff.get("text"));
    let named = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
    let heading: usize = whole
        .split_inclusive('\n')
        .take_while(named)
        .map(str::len)
        .sum();
    let rest = whole.get(heading..).unwrap_or(whole).to_owned();
    // A diff that does not begin with a hunk is shown as it is.
    if rest.starts_with("@@ ")
        && let Some(text) = diff.get_mut("text")
    {
        *text = Value::String(rest);
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
    items(form.get("preview")).any(|part| {
        text(part.get("kind")) == "diff"
            && (text(part.get("path")) == path || part.get("to").is_some_and(|to| to == path))
    })
}

/// The input that nothing above shows, one line per parameter.
fn input(form: &Map<String, Value>) -> Page {
    let all = form.get("input").unwrap_or(&Value::Null);
    let Some(parameters) = all.as_object() else {
        return match all {
            Value::Null => Page::new(),
            other => Page::new().field_block("input", &visible::json(other).join("\n")),
        };
    };
    if is_built_in(form) && is_shown_by_diffs(form) {
        return Page::new();
    }
    let mut page = Page::new();
    for (name, value) in parameters {
        if is_built_in(form) && (name == "timeout_ms" || is_drawn(value, form)) {
            continue;
        }
        page = match value {
            Value::Object(_) | Value::Array(_) => {
                let lines = visible::json(value).join("\n");
                page.field_block("input", &format!("{}: {lines}", visible::line(name)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                page.field("input", visible::line(&format!("{name}: {value}")))
            }
        };
    }
    page
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
fn programs(form: &Map<String, Value>) -> Page {
    items(form.get("programs")).fold(Page::new(), |page, program| {
        let path = visible::line(text(program.get("path")));
        let now = match program.get("version").and_then(Value::as_str) {
            Some(_) => "as it is now",
            None => "which is not a file in the workspace now",
        };
        page.field("program", format!("{path}, {now}"))
    })
}

/// Where it runs, and what it can reach from there; nothing for what Haft itself does to files of
/// the workspace.
fn place(form: &Map<String, Value>) -> Page {
    let mut places = Vec::new();
    let backend = text(form.get("backend"));
    if backend != "local" {
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
        return Page::new();
    }
    Page::new().field("where", places.join(", "))
}

/// Who is behind the agent, if not the person.
fn behind(form: &Map<String, Value>) -> Page {
    let principal = form.get("principal");
    let of = |name: &str| principal.and_then(|principal| principal.get(name));
    let mut page = Page::new();
    for ancestor in items(of("ancestors")) {
        page = page.field("parent", visible::line(text(Some(ancestor))));
    }
    if let Some(channel) = of("channel").and_then(Value::as_str) {
        page = page.field("channel", visible::line(channel));
    }
    page
}
