//! What only an auditor needs of a question: who exactly asks, the input as recorded, the digest
//! an answer binds, limits, confinement, and every command with what the rules say to it.

use haft_contract::{Effects, PlanDigest};
use serde_json::{Map, Value};

use super::{access, items, network, preview, text, texts};
use crate::screen_text::{TextLine, field, field_block, visible};

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
    "hidden",
    "read_only",
    "versions",
    "programs",
    "preview",
    "read_from",
];

/// Draws them.
pub(super) fn draw(form: &Map<String, Value>, digest: PlanDigest) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if let Some(principal) = form.get("principal") {
        lines.push(field("by", &visible::line(&who(principal))));
    }
    let workspace = text(form.get("workspace"));
    lines.push(field("workspace", &visible::line(workspace)));
    lines.push(field("tool", &visible::line(text(form.get("tool")))));
    for (word, name) in [
        ("left out", "withheld"),
        ("hidden", "hidden"),
        ("read only", "read_only"),
    ] {
        let patterns = texts(form, name);
        if !patterns.is_empty() {
            lines.push(field(word, &visible::line(&patterns.join(", "))));
        }
    }
    let input = visible::json(form.get("input").unwrap_or(&Value::Null));
    lines.extend(field_block("input", input.iter().map(String::as_str)));
    lines.push(field("plan", &format!("sha256 {digest}")));
    lines.push(field("deadline", &deadline(form.get("deadline_ms"))));
    lines.push(field("effects", &effects(form.get("effects"))));
    lines.push(field("confined", &confinement(form)));
    for program in items(form.get("programs")) {
        lines.push(field("program", &program_in_words(program)));
    }
    for access in items(form.get("accesses")) {
        lines.extend(access::draw(access));
    }
    let is_command = |part: &&Value| text(part.get("kind")) == "command";
    for command in items(form.get("preview")).filter(is_command) {
        lines.extend(preview::command(command));
    }
    lines
}

/// The fields this version does not know, as recorded.
pub(super) fn further(form: &Map<String, Value>) -> Vec<TextLine> {
    let unknown = form
        .iter()
        .filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    unknown
        .map(|(name, value)| field("further", &visible::line(&format!("{name}: {value}"))))
        .collect()
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

/// The declared effects, in words.
pub(super) fn effects(flags: Option<&Value>) -> String {
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

fn program_in_words(program: &Value) -> String {
    let path = visible::line(text(program.get("path")));
    match program.get("version").and_then(Value::as_str) {
        Some(version) => format!("{path} as it is now ({})", visible::line(version)),
        None => format!("{path}, which is not a file in the workspace now"),
    }
}
