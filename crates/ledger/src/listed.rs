//! A call's entry in the list: a fold over its events in stored form, secrets already removed, made
//! when the list is read. Nothing of it is stored.

use haft_contract::{Terminal, WorkPath, access::Command, host::Timestamp, ops::GitPart};
use serde_json::Value;

use crate::call_fact::workspace_shown;

/// The event that has the outcome of a call.
pub(crate) const SETTLED: &str = "settled";

/// How a call ended under a claim that was superseded by then. It is not the outcome.
pub(crate) const SETTLED_LATE: &str = "settled_late";

/// The longest summary, in characters.
const MAX_SUMMARY_CHARS: usize = 200;

/// The longest requested tool name that is kept, in characters.
const MAX_ASKED_CHARS: usize = 128;

/// The most accesses a summary names.
const MAX_SUMMARY_ACCESSES: usize = 8;

/// The tool that puts back what calls did.
const UNDO: &str = "undo";

/// What the parts of a git repository are called together.
const GIT_STATE: &str = "git's state";

/// One call, as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedCall {
    pub(crate) workspace: String,
    pub(crate) workspace_shown: Option<String>,
    pub(crate) asked_tool: String,
    pub(crate) tool: Option<String>,
    pub(crate) opened: Timestamp,
    pub(crate) settled: Option<(Terminal, Timestamp)>,
    pub(crate) summary: String,
}

impl ListedCall {
    /// A newly opened call, from the body of its first record.
    pub(crate) fn new(opened: &Value, at: Timestamp) -> Self {
        let asked_tool: String = text(opened, "tool").chars().take(MAX_ASKED_CHARS).collect();
        Self {
            workspace: workspace(opened).to_owned(),
            workspace_shown: None,
            summary: asked_tool.clone(),
            asked_tool,
            tool: None,
            opened: at,
            settled: None,
        }
    }

    /// Folds in one record. Kinds that do not affect the list are skipped.
    pub(crate) fn absorb(&mut self, kind: &str, at: Timestamp, body: &Value) {
        match kind {
            "resolved" => self.set_tool(body),
            "planned" => {
                self.set_tool(body);
                self.workspace_shown = workspace_shown(body);
                let is_undo = self.asked_tool == UNDO;
                if let Some(summary) = plan_summary(accesses(body), is_undo) {
                    self.summary = one_line(&summary);
                }
            }
            SETTLED => self.settle(at, body),
            _ => {}
        }
    }

    fn settle(&mut self, at: Timestamp, body: &Value) {
        if self.settled.is_some() {
            return;
        }
        let terminal = Terminal::parse(text(body, "terminal"));
        self.settled = Some((terminal.unwrap_or(Terminal::Unknown), at));
        self.set_tool(body);
        if let Some(message) = failure_message(body) {
            let what = if self.summary == self.asked_tool {
                message.to_owned()
            } else {
                format!("{}: {message}", self.summary)
            };
            self.summary = one_line(&what);
        }
    }

    fn set_tool(&mut self, body: &Value) {
        if let Some(tool) = body.get("tool").and_then(Value::as_str) {
            self.tool = Some(tool.to_owned());
        }
    }
}

/// The workspace of a call, from the body of its first record.
pub(crate) fn workspace(opened: &Value) -> &str {
    text(opened, "workspace")
}

/// The accesses of a stored plan.
pub(crate) fn accesses(planned: &Value) -> &[Value] {
    planned
        .get("accesses")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// What a stored access touches, as text.
pub(crate) fn access_text(access: &Value) -> String {
    let field = |name| text(access, name);
    match field("access") {
        "read" | "write" => field("path").to_owned(),
        "shell" => field("script").to_owned(),
        "argv" => {
            let words = access.get("argv").and_then(Value::as_array);
            let words = words.into_iter().flatten().filter_map(Value::as_str);
            Command::Argv(words.map(str::to_owned).collect()).text()
        }
        "connect" => {
            let port = access.get("port").and_then(Value::as_u64);
            format!("{}:{}", field("host"), port.unwrap_or_default())
        }
        "database" => field("source").to_owned(),
        "message" => format!("{} {}", field("channel"), field("target")),
        "remote_tool" => format!("{}/{}", field("provider"), field("tool")),
        "custom" => format!("{}:{}", field("kind"), field("target")),
        _ => String::new(),
    }
}

/// Why a settled call failed, if it did.
pub(crate) fn failure_message(settled: &Value) -> Option<&str> {
    settled.pointer("/error/message").and_then(Value::as_str)
}

/// The command, or else the paths. What an undo does to git is one thing, whatever files it is in.
fn plan_summary(accesses: &[Value], is_undo: bool) -> Option<String> {
    let is_command = |access: &&Value| matches!(text(access, "access"), "shell" | "argv");
    if let Some(command) = accesses.iter().find(is_command) {
        return Some(access_text(command));
    }
    if accesses.is_empty() {
        return None;
    }
    // What is read and written is named once.
    let mut named: Vec<String> = Vec::new();
    for access in accesses {
        let mut text = access_text(access);
        if is_undo && is_git_part(&text) {
            GIT_STATE.clone_into(&mut text);
        }
        if !named.contains(&text) {
            named.push(text);
        }
        if named.len() == MAX_SUMMARY_ACCESSES {
            break;
        }
    }
    Some(named.join(" "))
}

fn is_git_part(path: &str) -> bool {
    WorkPath::relative(path).is_ok_and(|path| GitPart::of(&path).is_some())
}

/// One line of at most [`MAX_SUMMARY_CHARS`] characters, control characters replaced by spaces.
fn one_line(text: &str) -> String {
    let mut line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_SUMMARY_CHARS + 1)
        .collect();
    if line.chars().count() > MAX_SUMMARY_CHARS {
        line.pop();
        line.pop();
        line.push('…');
    }
    line
}

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(tool: &str, paths: &[&str], expected: &str) {
        let access = |path: &&str| json!({"access": "write", "path": path});
        let accesses: Vec<Value> = paths.iter().map(access).collect();
        let opened = json!({"tool": tool, "workspace": "w"});
        let mut listed = ListedCall::new(&opened, Timestamp(0));
        listed.absorb("planned", Timestamp(0), &json!({"accesses": accesses}));
        assert_eq!(listed.summary, expected);
    }

    #[test]
    fn an_undo_of_git_is_one_thing_in_the_list() {
        let git = [
            ".git/HEAD",
            ".git/ORIG_HEAD",
            ".git/index",
            ".git/logs/HEAD",
            ".git/logs/refs/heads/a",
            ".git/logs/refs/heads/b",
            ".git/refs/heads/a",
            ".git/refs/heads/b",
            "src/a",
        ];
        check("undo", &git, "git's state src/a");
        // The control: whoever reads one of these files reads a file.
        check("read", &[".git/HEAD", "a", "a"], ".git/HEAD a");
    }
}
