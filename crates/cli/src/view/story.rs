//! A recorded call, told in order: what was asked for, what was planned and decided, who answered, what
//! changed and how it ended. Nothing is shown as JSON; `--json` has every field.

use std::fmt::Write as _;

use haft_contract::host::{StoredCall, StoredEvent};
use haft_tools::change::ShownChange;
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    bars::bytes,
    call::{CallView, outcome_style},
    decision::{DecisionView, short_version, verdict_style},
    time,
};
use crate::terminal::{Page, Style};

/// How many lines of a long text are shown from its start and from its end.
const HEAD_LINES: usize = 20;
const TAIL_LINES: usize = 5;

/// How many fields of an input, and how many accesses of a plan, are shown.
const MAX_FIELDS: usize = 40;
const MAX_ACCESSES: usize = 20;

/// The margin before what belongs to an event.
const MARGIN: &str = "            ";

/// A wait for a turn that is shorter is not worth a line, in microseconds.
const SHORT_WAIT_US: u64 = 10_000;

/// The event that says how far a running call has got.
const PROGRESS: &str = "progress_noted";

/// Tells a call.
pub(crate) fn tell(
    call: &StoredCall,
    view: &CallView,
    events: &[StoredEvent],
    git: &[String],
    diffs: &[ShownChange],
) -> Page {
    let mut page = heading(call, view);
    for line in git {
        page = page.field("git", line);
    }
    let mut diffs = Some(diffs);
    let newest = events.iter().rposition(|event| event.kind == PROGRESS);
    for (at, event) in events.iter().enumerate() {
        // How far a call had got says nothing once it is over, and only the last note before.
        if event.kind == PROGRESS && (call.terminal.is_some() || Some(at) != newest) {
            continue;
        }
        let Some(told) = event_in_words(event, &view.call) else {
            continue;
        };
        page = page
            .styled(Style::Dim, format!("{}  ", time::of_day(event.at)))
            .page(told);
        if event.kind == "file_changed" {
            // Once, where the first change is: a diff has all that the call did to a file.
            for diff in diffs.take().unwrap_or_default() {
                page = page.page(changed(diff, &view.call));
            }
        }
    }
    page
}

fn heading(call: &StoredCall, view: &CallView) -> Page {
    let tool = view.tool.strip_prefix("builtin/").unwrap_or(&view.tool);
    let duration = call.settled.map(|settled| {
        let micros = settled.since(call.opened).as_micros();
        format!(
            " in {}",
            time::duration(u64::try_from(micros).unwrap_or(u64::MAX))
        )
    });
    Page::new()
        .styled(Style::Strong, format!("{tool}  "))
        .text(&call.summary)
        .end()
        .styled(outcome_style(call.terminal), &view.outcome)
        .text(duration.unwrap_or_default())
        .styled(
            Style::Dim,
            format!(
                "  {} for {} · session {} ({}) · {}",
                view.agent, view.user, view.session, view.session_kind, view.workspace
            ),
        )
        .end()
        .styled(
            Style::Dim,
            format!("{} · {}", time::local(call.opened), view.call),
        )
        .end()
        .end()
}

/// One event, in a line and what belongs to it; none for what says nothing more than the rest.
fn event_in_words(event: &StoredEvent, call: &str) -> Option<Page> {
    let body = &event.body;
    let line = |text: &str| Page::new().text(text).end();
    Some(match event.kind.as_str() {
        "opened" => line(&format!("asked for {}", text(body, "tool"))).page(input(body, call)),
        "resolved" | "preimage_kept" => return None,
        "validated" => {
            let coercions = texts(body, "coercions");
            if coercions.is_empty() {
                return None;
            }
            line(&format!("understood as {}", coercions.join(", ")))
        }
        "planned" => planned(body),
        "decided" => decided(body),
        "approval_asked" => line("asked a person"),
        "approval_answered" => line(&answered(body)),
        "granted" => line(&format!(
            "{} allowed `{}` from now on, {} {}",
            text(body, "by"),
            text(body, "rule"),
            text(body, "scope"),
            text(body, "shown")
        )),
        "admitted" => {
            let waited = number(body, "waited_us");
            if waited < SHORT_WAIT_US {
                return None;
            }
            line(&format!("waited {} for its turn", time::duration(waited)))
        }
        "started" => line(&format!("started, {}", tier(text(body, "tier")))),
        PROGRESS => line(&so_far(body)),
        "file_changed" => {
            let gone = body.get("after").is_none_or(Value::is_null);
            let verb = if gone { "removed" } else { "wrote" };
            line(&format!("{verb} {}", text(body, "path")))
        }
        "rows_changed" => {
            let rows = number(body, "rows");
            let columns = texts(body, "writes").join(", ");
            match body.get("missed").and_then(Value::as_str) {
                None => line(&format!("changed {rows} rows of {columns}")),
                Some(missed) => line(&format!(
                    "changed {rows} rows of {columns}, which cannot be undone: {missed}"
                )),
            }
        }
        "changes_scanned" => {
            let missed = body.get("missed").and_then(Value::as_str)?;
            line(&format!("not every change is on record: {missed}"))
        }
        "settled" => settled(body, call),
        "settled_late" => line(&format!(
            "another worker's result came too late: {}",
            text(body, "terminal")
        )),
        other => line(&other.replace('_', " ")),
    })
}

/// How far a running call had got: what it does, its steps, and the time left.
fn so_far(body: &Value) -> String {
    let mut told = format!("so far: {}", text(body, "message"));
    if let Some(step) = body.get("step").and_then(Value::as_u64) {
        let of = body.get("total").and_then(Value::as_u64);
        let of = of.map_or_else(String::new, |total| format!(" of {total}"));
        let _ = write!(told, " (step {step}{of})");
    }
    let (bound, left) = match body.get("remaining_ms").and_then(Value::as_u64) {
        Some(remaining) => ("about", remaining),
        None => ("at most", number(body, "deadline_in_ms")),
    };
    let left = time::duration(left.saturating_mul(1_000));
    let _ = write!(told, ", {bound} {left} left");
    told
}

/// What was asked for, one line a field.
fn input(opened: &Value, call: &str) -> Page {
    let mut fields = Vec::new();
    if let Some(words) = opened.pointer("/arguments/text").and_then(Value::as_str) {
        match serde_json::from_str(words) {
            Ok(value @ Value::Object(_)) => flatten(String::new(), &value, &mut fields),
            Ok(_) | Err(_) => fields.push((String::new(), words.to_owned())),
        }
    } else if let Some(value) = opened.pointer("/arguments/value") {
        flatten(String::new(), value, &mut fields);
    }
    let mut page = Page::new();
    for (name, value) in fields.iter().take(MAX_FIELDS) {
        let value = excerpt(value, call).replace('\n', &format!("\n{MARGIN}  "));
        page = page
            .styled(Style::Dim, format!("{MARGIN}{name}  "))
            .block(value)
            .end();
    }
    if fields.len() > MAX_FIELDS {
        page = page.page(note(&format!("… and {} more", fields.len() - MAX_FIELDS)));
    }
    page
}

/// The fields of a value with their paths, such as `edits.0.old`.
fn flatten(path: String, value: &Value, fields: &mut Vec<(String, String)>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                flatten(below(name), value, fields);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                flatten(below(&index.to_string()), value, fields);
            }
        }
        Value::String(text) => fields.push((path, text.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) => fields.push((path, value.to_string())),
    }
}

fn planned(body: &Value) -> Page {
    let accesses = body.get("accesses").and_then(Value::as_array);
    let accesses: Vec<String> = accesses
        .into_iter()
        .flatten()
        .map(access_in_words)
        .collect();
    let deadline = number(body, "deadline_ms").saturating_mul(1_000);
    let mut page = Page::new()
        .text(format!(
            "planned, {}, at most {}",
            tier(text(body, "tier")),
            time::duration(deadline)
        ))
        .end();
    for access in accesses.iter().take(MAX_ACCESSES) {
        page = page.page(note(access));
    }
    if accesses.len() > MAX_ACCESSES {
        page = page.page(note(&format!(
            "… and {} more",
            accesses.len() - MAX_ACCESSES
        )));
    }
    let read_from = texts(body, "read_from");
    if !read_from.is_empty() {
        page = page.page(note(&format!(
            "the session had read from {}",
            read_from.join(", ")
        )));
    }
    page
}

fn access_in_words(access: &Value) -> String {
    let field = |name| text(access, name);
    let stays = access.get("stays").and_then(Value::as_bool) == Some(true);
    let stays = if stays { ", which stays" } else { "" };
    match field("access") {
        "read" => format!("reads {}", field("path")),
        "write" => format!("writes {}", field("path")),
        "shell" => format!("runs {}{stays}", field("script")),
        "argv" => format!("runs {}{stays}", texts(access, "argv").join(" ")),
        "process" => format!("acts on a process: {} {}", field("act"), field("command")),
        "connect" => format!("connects to {}:{}", field("host"), number(access, "port")),
        "database" => format!("queries the database {}", field("source")),
        "message" => format!("sends to {} on {}", field("target"), field("channel")),
        "remote_tool" => format!("calls {} of {}", field("tool"), field("provider")),
        "custom" => format!("uses {} {}", field("kind"), field("target")),
        other => other.replace('_', " "),
    }
}

fn decided(body: &Value) -> Page {
    let Ok(decision) = DecisionView::deserialize(body) else {
        return Page::new().text("decided").end();
    };
    let mut page = Page::new()
        .text("decided: ")
        .styled(verdict_style(&decision.verdict), &decision.verdict)
        .text(format!(", because {}", decision.reason))
        .end();
    if let Some(rule) = &decision.rule {
        page = page.page(note(&format!("by {rule}")));
    }
    if !texts(body, "grants").is_empty() {
        page = page.page(note("a standing approval covers it"));
    }
    let version = short_version(&decision.policy);
    page = page.page(note(&format!("under rules {version}")));
    page
}

fn answered(body: &Value) -> String {
    let by = text(body, "by");
    match text(body, "answer") {
        "approved" => format!("{by} allowed it"),
        "refused" => match body.get("reason").and_then(Value::as_str) {
            Some(reason) => format!("{by} refused it: {reason}"),
            None => format!("{by} refused it"),
        },
        "nobody_there" => "nobody was there to ask".to_owned(),
        "failed" => format!("asking failed: {}", text(body, "reason")),
        "expired" => "nobody answered in time".to_owned(),
        "elsewhere" => "the question waits elsewhere".to_owned(),
        other => other.replace('_', " "),
    }
}

fn settled(body: &Value, call: &str) -> Page {
    let facts = body.get("facts").unwrap_or(&Value::Null);
    let terminal = text(body, "terminal");
    let style = outcome_style(haft_contract::Terminal::parse(terminal));
    let ran = number(facts, "ran_us");
    let mut page = Page::new().styled(style, terminal.replace('_', " "));
    if ran > 0 {
        page = page.text(format!(" after {}", time::duration(ran)));
    }
    if let Some(code) = facts.get("exit_code").and_then(Value::as_i64) {
        page = page.text(format!(", exit code {code}"));
    }
    if let Some(signal) = facts.get("signal").and_then(Value::as_i64) {
        page = page.text(format!(", ended by signal {signal}"));
    }
    if let Some(whole) = facts.pointer("/artifact/bytes").and_then(Value::as_u64) {
        page = page.text(format!(", {} of output", bytes(whole)));
    }
    page = page.end();
    if let Some(message) = body.pointer("/error/message").and_then(Value::as_str) {
        page = page.page(indented(message, call));
    }
    if let Some(hint) = body.pointer("/error/hint").and_then(Value::as_str) {
        page = page.page(note(&format!("hint: {hint}")));
    }
    for refusal in facts
        .get("refusals")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        page = page.page(note(&format!(
            "the sandbox refused {}: {}",
            text(refusal, "what"),
            text(refusal, "why")
        )));
    }
    for part in body
        .get("content")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        page = match text(part, "type") {
            "text" => page.page(indented(text(part, "text"), call)),
            "bytes" => page.page(note(&format!(
                "{}, {}",
                text(part, "media_type"),
                bytes(number(part, "bytes"))
            ))),
            _ => page.page(note(&format!(
                "{} {}",
                text(part, "name"),
                text(part, "uri")
            ))),
        };
    }
    page
}

/// What happened to a file, as a diff.
fn changed(shown: &ShownChange, call: &str) -> Page {
    let diff = &shown.diff;
    let mut page = Page::new();
    for line in excerpt(diff.text.trim_end(), call).lines() {
        let style = match line.chars().next() {
            Some('+') if !line.starts_with("+++") => Style::Good,
            Some('-') if !line.starts_with("---") => Style::Bad,
            Some('@') => Style::Dim,
            _ => Style::Plain,
        };
        page = page
            .text(MARGIN)
            .styled(style, line.replace('\t', "    "))
            .end();
    }
    match &diff.note {
        Some(reason) => page.page(note(&format!("{}: {reason}", diff.path))),
        None => page,
    }
}

/// Text below an event, its ends if it is long.
fn indented(text: &str, call: &str) -> Page {
    let mut page = Page::new();
    for line in excerpt(text.trim_end(), call).lines() {
        page = page.block(format!("{MARGIN}{line}")).end();
    }
    page
}

/// A line of ours below an event.
fn note(text: &str) -> Page {
    Page::new().styled(Style::Dim, MARGIN).text(text).end()
}

/// The start and the end of a long text, and where the rest is.
fn excerpt(text: &str, call: &str) -> String {
    let lines = text.lines().count();
    if lines <= HEAD_LINES + TAIL_LINES {
        return text.to_owned();
    }
    let head = text.lines().take(HEAD_LINES);
    let left_out = format!(
        "… {} lines, `haft call read_output call={call}` and `--json` have them",
        lines - HEAD_LINES - TAIL_LINES
    );
    let tail = text.lines().skip(lines - TAIL_LINES);
    let shown: Vec<&str> = head.chain([left_out.as_str()]).chain(tail).collect();
    shown.join("\n")
}

/// Where something ran, in words.
fn tier(name: &str) -> String {
    match name {
        "" => "nowhere yet".to_owned(),
        "host" => "without a sandbox".to_owned(),
        "in_process" => "in Haft itself".to_owned(),
        tier => format!("in the sandbox {}", tier.to_uppercase()),
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn texts<'v>(value: &'v Value, name: &str) -> Vec<&'v str> {
    let items = value.get(name).and_then(Value::as_array);
    let items = items.into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}
