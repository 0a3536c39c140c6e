//! What is known of a call so far, folded from its events: its row, its one-line summary and its
//! words for search. Every step only sets fields, so that folding a batch again after a failed
//! commit gives the same draft.

use std::sync::Arc;

use haft_contract::{
    Access, Arguments, CallEvent, CallId, CallRequest, Content, Outcome, Principal, Terminal,
    event::Happened, host::Timestamp,
};
use serde_json::Value;

use crate::redact::Redactor;

/// The longest summary, in characters.
pub(crate) const MAX_SUMMARY_CHARS: usize = 200;

/// How much of the input can be searched, in bytes.
const MAX_INPUT_TEXT_BYTES: usize = 16 * 1024;

/// How much of the output can be searched, in bytes.
const MAX_OUTPUT_TEXT_BYTES: usize = 16 * 1024;

/// The longest tool name kept as asked, in characters.
const MAX_ASKED_CHARS: usize = 128;

/// One call as its row will say.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) id: CallId,
    pub(crate) principal: Arc<Principal>,
    pub(crate) asked_tool: String,
    pub(crate) tool: Option<String>,
    pub(crate) opened: Timestamp,
    pub(crate) started: Option<Timestamp>,
    /// Pessimistic until a plan says otherwise.
    pub(crate) read_only: bool,
    /// Whether a secret was taken out of the request, so that it cannot be run again from here.
    pub(crate) redacted: bool,
    pub(crate) settled: Option<(Terminal, Timestamp)>,
    pub(crate) summary: String,
    /// Words for search: input, commands, paths, and the beginning of the output.
    pub(crate) words: String,
    /// When the last event happened.
    pub(crate) last: Timestamp,
}

impl Draft {
    /// A call that was just opened.
    pub(crate) fn new(request: &CallRequest, at: Timestamp, redactor: &Redactor) -> Self {
        let asked_tool: String = redactor
            .text(&request.tool)
            .chars()
            .take(MAX_ASKED_CHARS)
            .collect();
        let words = match &request.arguments {
            Arguments::Text(text) => {
                let mut words = String::new();
                push_capped(&mut words, &redactor.text(text), MAX_INPUT_TEXT_BYTES);
                words
            }
            Arguments::Value(value) => input_words(value, redactor),
        };
        Self {
            id: request.id,
            principal: Arc::clone(&request.principal),
            summary: asked_tool.clone(),
            asked_tool,
            tool: None,
            opened: at,
            started: None,
            read_only: false,
            redacted: false,
            settled: None,
            words,
            last: at,
        }
    }

    /// Folds one event in.
    pub(crate) fn absorb(&mut self, happened: &Happened, redactor: &Redactor) {
        self.last = happened.at;
        match &happened.event {
            CallEvent::Resolved { tool } => self.tool = Some(tool.to_string()),
            CallEvent::Planned { plan } => {
                self.tool = Some(plan.tool.to_string());
                self.read_only = plan.effects.read_only;
                self.words = input_words(&plan.input, redactor);
                for access in &plan.accesses {
                    let text = access_text(access);
                    push_capped(&mut self.words, &redactor.text(&text), MAX_INPUT_TEXT_BYTES);
                }
                if let Some(summary) = plan_summary(&plan.accesses) {
                    self.summary = one_line(&redactor.text(&summary));
                }
            }
            CallEvent::Started { .. } => self.started = Some(happened.at),
            CallEvent::Settled { outcome } => self.settle(outcome, happened.at, redactor),
            CallEvent::Opened
            | CallEvent::Validated { .. }
            | CallEvent::Decided { .. }
            | CallEvent::ApprovalAsked { .. }
            | CallEvent::ApprovalAnswered { .. }
            | CallEvent::Admitted { .. }
            | CallEvent::Running
            | CallEvent::Progress(_)
            | CallEvent::Output { .. }
            | CallEvent::PreimageKept { .. }
            | CallEvent::FileChanged { .. }
            | CallEvent::RunEnded => {}
        }
    }

    fn settle(&mut self, outcome: &Outcome, at: Timestamp, redactor: &Redactor) {
        if self.settled.is_some() {
            return;
        }
        self.settled = Some((outcome.terminal, at));
        if let Some(tool) = &outcome.tool {
            self.tool = Some(tool.to_string());
        }
        // Cut only after secrets are out: half a secret has no shape to know it by.
        let cap = self.words.len() + MAX_OUTPUT_TEXT_BYTES;
        for text in outcome.content.iter().filter_map(Content::as_text) {
            push_capped(&mut self.words, &redactor.text(text), cap);
        }
        if let Some(failure) = &outcome.error {
            push_capped(&mut self.words, &redactor.text(&failure.message), cap);
            let what = if self.summary == self.asked_tool {
                failure.message.clone()
            } else {
                format!("{}: {}", self.summary, failure.message)
            };
            self.summary = one_line(&redactor.text(&what));
        }
    }

    /// Everything that can be searched for.
    pub(crate) fn search_text(&self) -> String {
        format!(
            "{} {}\n{}\n{}",
            self.asked_tool,
            self.tool.as_deref().unwrap_or_default(),
            self.summary,
            self.words
        )
    }
}

/// The command, or else the paths.
fn plan_summary(accesses: &[Access]) -> Option<String> {
    let command = accesses
        .iter()
        .find(|access| matches!(access, Access::Command(_)));
    if let Some(command) = command {
        return Some(access_text(command));
    }
    if accesses.is_empty() {
        return None;
    }
    Some(
        accesses
            .iter()
            .take(8)
            .map(access_text)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

fn access_text(access: &Access) -> String {
    match access {
        Access::Path(path) => path.path.as_str().to_owned(),
        Access::Command(command) => command.command.text(),
        Access::Host { host, port } => format!("{host}:{port}"),
        Access::Database { source, .. } => source.clone(),
        Access::Message { channel, target } => format!("{channel} {target}"),
        Access::RemoteTool { provider, tool } => format!("{provider}/{tool}"),
    }
}

/// One line of at most [`MAX_SUMMARY_CHARS`] characters, control characters as spaces.
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

fn input_words(input: &Value, redactor: &Redactor) -> String {
    let mut input = input.clone();
    redactor.value(&mut input);
    let mut words = String::new();
    push_strings(&mut words, &input, MAX_INPUT_TEXT_BYTES);
    words
}

fn push_strings(words: &mut String, value: &Value, cap: usize) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => push_capped(words, &value.to_string(), cap),
        Value::String(text) => push_capped(words, text, cap),
        Value::Array(items) => items.iter().for_each(|item| push_strings(words, item, cap)),
        Value::Object(fields) => {
            for (name, field) in fields {
                push_capped(words, name, cap);
                push_strings(words, field, cap);
            }
        }
    }
}

fn push_capped(words: &mut String, text: &str, cap: usize) {
    let mut room = cap.saturating_sub(words.len()).min(text.len());
    while !text.is_char_boundary(room) {
        room -= 1;
    }
    if let Some(part) = text.get(..room)
        && !part.is_empty()
    {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(part);
    }
}
