//! A question to a person, drawn from its canonical form and nothing else, after checking that the
//! form is the one whose digest the answer will bind. The terminal that made the call,
//! `haft approve` and the watch screen show all of it; an agent's own box shows it in brief
//! (`brief.rs`), from the same pieces. Nothing else draws questions.
//!
//! Nothing hides: the agent's text goes through `terminal/visible.rs`, every line starts with our
//! own word or margin, and a field this version does not know is shown as recorded.

mod access;
mod brief;
mod preview;

pub(crate) use self::brief::BoxSize;

use std::collections::BTreeSet;

use haft_contract::{Effects, PlanDigest};
use serde_json::{Map, Value};

use crate::terminal::{Page, Style, visible};

/// The most questions a list shows.
pub(crate) const MAX_LISTED: usize = 1_000;

/// The start of every line below a heading.
const MARGIN: &str = "          ";

/// A question in the form a person sees.
#[derive(Debug, Clone)]
pub(crate) struct RenderedQuestion {
    /// Who asks, where, and with which limits.
    pub(crate) facts: Page,
    /// What will happen.
    pub(crate) heart: Page,
}

impl RenderedQuestion {
    /// All of it; what will happen comes last, next to the prompt.
    pub(crate) fn whole(&self) -> Page {
        self.facts.clone().page(self.heart.clone())
    }
}

/// The form is not the one that was asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FormMismatch;

/// Draws a question, if its form has this digest.
pub(crate) fn draw(form: &Value, digest: PlanDigest) -> Result<RenderedQuestion, FormMismatch> {
    let fields = checked(form, digest)?;
    Ok(RenderedQuestion {
        facts: facts(fields, digest),
        heart: heart(fields),
    })
}

/// Draws what a person needs to judge a question, with why it is asked, if its form has this
/// digest.
pub(crate) fn brief(
    form: &Value,
    digest: PlanDigest,
    why: &str,
    room: BoxSize,
) -> Result<Page, FormMismatch> {
    Ok(brief::draw(checked(form, digest)?, why, room))
}

/// The fields of a form, if it has this digest.
fn checked(form: &Value, digest: PlanDigest) -> Result<&Map<String, Value>, FormMismatch> {
    let fields = form.as_object().ok_or(FormMismatch)?;
    if haft_runtime::digest_of(form) != digest {
        return Err(FormMismatch);
    }
    Ok(fields)
}

/// The key for grouping many questions: the agent, the tool and the program or the kind of access.
pub(crate) fn kind(form: &Value) -> String {
    let tool = text(form.get("tool")).trim_start_matches("builtin/");
    let agent = text(form.pointer("/principal/agent"));
    let first = items(form.get("preview"))
        .find(|part| text(part.get("kind")) == "command")
        .map(|part| text(part.get("text")))
        .or_else(|| {
            let command = items(form.get("accesses")).find_map(|access| access.get("command"))?;
            let argv = command.pointer("/argv/0");
            Some(text(command.get("shell").or(argv)))
        })
        .and_then(|command| command.split_whitespace().next());
    let what = first.or_else(|| {
        let access = items(form.get("accesses")).next()?;
        Some(text(access.get("mode").or_else(|| access.get("kind"))))
    });
    visible::line(&format!("{agent} {tool} {}", what.unwrap_or_default()))
}

/// The fields of a form that are drawn in words; any other is drawn as recorded.
const KNOWN: &[&str] = &[
    "form",
    "principal",
    "policy",
    "tool",
    "tool_digest",
    "action",
    "input",
    "accesses",
    "effects",
    "backend",
    "workspace",
    // People know the workspace by its root.
    "workspace_id",
    "tier",
    "egress",
    "deadline_ms",
    "withheld",
    "versions",
    "programs",
    "preview",
    "read_from",
];

fn facts(form: &Map<String, Value>, digest: PlanDigest) -> Page {
    let mut page = Page::new();
    if let Some(principal) = form.get("principal") {
        page = page.field("by", visible::line(&who(principal)));
    }
    page = page.field("workspace", visible::line(text(form.get("workspace"))));
    page = page.page(further(form)).page(read_from(form));
    let withheld = texts(form, "withheld");
    if !withheld.is_empty() {
        page = page.field("left out", visible::line(&withheld.join(", ")));
    }
    let input = form.get("input").unwrap_or(&Value::Null);
    page = page
        .page(drawn_input(input))
        .field("plan", format!("sha256 {digest}"))
        .field("deadline", deadline(form.get("deadline_ms")))
        .field("effects", effects(form.get("effects")))
        .field("confined", confinement(form));
    for program in items(form.get("programs")) {
        page = page.field("program", program_in_words(program));
    }
    page
}

/// The fields this version does not know, as recorded.
fn further(form: &Map<String, Value>) -> Page {
    let unknown = form
        .iter()
        .filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    unknown.fold(Page::new(), |page, (name, value)| {
        page.field("further", visible::line(&format!("{name}: {value}")))
    })
}

/// What the session has read, which may be why the agent asks.
fn read_from(form: &Map<String, Value>) -> Page {
    let read_from = texts(form, "read_from");
    if read_from.is_empty() {
        return Page::new();
    }
    let sources = visible::line(&read_from.join(", "));
    let said = format!("{sources}; text from there may have caused this call");
    Page::new().field("read from", said)
}

/// The input as it will be used, one line per parameter.
fn drawn_input(input: &Value) -> Page {
    Page::new().field_block("input", &visible::json(input).join("\n"))
}

fn heart(form: &Map<String, Value>) -> Page {
    let mut tool = text(form.get("tool")).to_owned();
    if let Some(action) = form.get("action").and_then(Value::as_str) {
        tool = format!("{tool} ({action})");
    }
    let mut page = Page::new()
        .styled(Style::Dim, "tool      ")
        .styled(Style::Strong, visible::line(&tool))
        .end();
    for access in items(form.get("accesses")) {
        page = page.page(access::draw(access));
    }
    for part in items(form.get("preview")) {
        page = page.page(preview::draw(part));
    }
    page.page(beware(form))
}

/// Letters in commands, paths and hosts that can be mistaken for others.
fn beware(form: &Map<String, Value>) -> Page {
    let mut letters = BTreeSet::new();
    for access in items(form.get("accesses")) {
        gather(access, &mut letters);
    }
    for part in items(form.get("preview")) {
        // A file's content may be in any language; its name is checked.
        match text(part.get("kind")) {
            "diff" => letters.extend(visible::letters(text(part.get("path")))),
            _ => gather(part, &mut letters),
        }
    }
    if letters.is_empty() {
        return Page::new();
    }
    let named: Vec<String> = letters
        .iter()
        .map(|letter| format!("`{letter}` is U+{:04X}", u32::from(*letter)))
        .collect();
    Page::new()
        .styled(Style::Bad, "beware    ")
        .styled(
            Style::Warn,
            format!("letters outside ASCII: {}", named.join(", ")),
        )
        .end()
}

fn gather(value: &Value, letters: &mut BTreeSet<char>) {
    match value {
        Value::String(text) => letters.extend(visible::letters(text)),
        Value::Array(items) => items.iter().for_each(|item| gather(item, letters)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, letters)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn who(principal: &Value) -> String {
    let of = |name: &str| text(principal.get(name));
    let mut words = format!(
        "agent {} for {} in session {} ({})",
        of("agent"),
        of("user"),
        of("session"),
        of("kind")
    );
    for ancestor in items(principal.get("ancestors")) {
        words.push_str(", started by ");
        words.push_str(text(Some(ancestor)));
    }
    if let Some(channel) = principal.get("channel").and_then(Value::as_str) {
        words.push_str(", from channel ");
        words.push_str(channel);
    }
    words
}

fn deadline(milliseconds: Option<&Value>) -> String {
    match milliseconds.and_then(Value::as_u64) {
        Some(milliseconds) => {
            let seconds = std::time::Duration::from_millis(milliseconds).as_secs_f64();
            format!("{seconds} s after it starts")
        }
        None => "none is recorded".to_owned(),
    }
}

fn effects(flags: Option<&Value>) -> String {
    let flags: Vec<bool> = items(flags).filter_map(Value::as_bool).collect();
    match flags.as_slice() {
        [read_only, idempotent, destructive, open_world] => Effects {
            read_only: *read_only,
            idempotent: *idempotent,
            destructive: *destructive,
            open_world: *open_world,
        }
        .to_string(),
        _ => "not recorded".to_owned(),
    }
}

fn confinement(form: &Map<String, Value>) -> String {
    // Haft only passes the call on, so its own confinement says nothing about what it does.
    if items(form.get("accesses")).any(|access| text(access.get("kind")) == "remote_tool") {
        return "at a mounted server: what it does there is not known; its program is confined as \
                [[mcp.servers]] says"
            .to_owned();
    }
    let tier = match text(form.get("tier")) {
        "host" => return "host: no sandbox; it can do whatever you can".to_owned(),
        "in_process" => {
            return "in_process: files of this workspace only, no child process".to_owned();
        }
        "t1" => "t1: a sandbox of Landlock and seccomp",
        "t2" => "t2: a sandbox of namespaces, Landlock and seccomp",
        "t3" => "t3: a sandbox with a kernel of its own, gVisor",
        other => return visible::line(other),
    };
    format!("{tier}; {}", network(form.get("egress")))
}

/// The hosts a sandboxed command may reach, all of them: they are part of what is approved.
fn network(rules: Option<&Value>) -> String {
    let written = |name: &str| {
        let rules = items(rules.and_then(|rules| rules.get(name)));
        rules
            .map(|rule| visible::line(text(Some(rule))))
            .collect::<Vec<_>>()
    };
    let (allowed, denied) = (written("allow"), written("deny"));
    match (allowed.is_empty(), denied.is_empty()) {
        (true, _) => "no network".to_owned(),
        (false, true) => format!("of the network {}", allowed.join(", ")),
        (false, false) => format!(
            "of the network {}, but not {}",
            allowed.join(", "),
            denied.join(", ")
        ),
    }
}

fn program_in_words(program: &Value) -> String {
    let path = visible::line(text(program.get("path")));
    match program.get("version").and_then(Value::as_str) {
        Some(version) => format!("{path} as it is now ({})", visible::line(version)),
        None => format!("{path}, which is not a file in the workspace now"),
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(form: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    let items = items(form.get(name));
    items.map(|item| text(Some(item))).collect()
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests;
