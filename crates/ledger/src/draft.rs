//! What is known about a call so far, folded from its records in stored form: its row in the list
//! and its search words. Secrets were already removed.
//!
//! The listed part is in `listed.rs`, because `verify` folds it again.

use std::sync::Arc;

use haft_contract::{CallId, CallRequest, Principal, host::Timestamp};
use serde_json::Value;

use crate::listed::{ListedCall, access_text, accesses, failure_message};

/// How much of the input is searchable, in bytes.
const MAX_INPUT_TEXT_BYTES: usize = 16 * 1024;

/// How much of the output is searchable, in bytes: half from the beginning and half from the end,
/// where commands say what went wrong. Indexing is the most expensive part of writing a call, and
/// grows with this.
const MAX_OUTPUT_TEXT_BYTES: usize = 2 * 1024;

/// One call, as its row will be written.
#[derive(Debug, Clone)]
pub(crate) struct CallDraft {
    pub(crate) id: CallId,
    pub(crate) principal: Arc<Principal>,
    pub(crate) listed: ListedCall,
    /// Whether a secret was removed from the request, so that it cannot be rerun from the record.
    pub(crate) redacted: bool,
    /// Search words: input, commands, paths, and the beginning and end of the output.
    pub(crate) words: String,
    /// When the last event happened.
    pub(crate) last: Timestamp,
}

impl CallDraft {
    /// A newly opened call, with the body of its first record.
    pub(crate) fn new(request: &CallRequest, opened: &Value, at: Timestamp) -> Self {
        let mut words = String::new();
        for arguments in ["/arguments/text", "/arguments/value"] {
            if let Some(arguments) = opened.pointer(arguments) {
                push_strings(&mut words, arguments, MAX_INPUT_TEXT_BYTES);
            }
        }
        Self {
            id: request.id,
            principal: Arc::clone(&request.principal),
            listed: ListedCall::new(opened, at),
            redacted: false,
            words,
            last: at,
        }
    }

    /// Folds in one record.
    pub(crate) fn absorb(&mut self, kind: &str, at: Timestamp, body: &Value) {
        self.last = at;
        self.listed.absorb(kind, at, body);
        match kind {
            "planned" => {
                self.words.clear();
                if let Some(input) = body.get("input") {
                    push_strings(&mut self.words, input, MAX_INPUT_TEXT_BYTES);
                }
                for access in accesses(body) {
                    push_capped(&mut self.words, &access_text(access), MAX_INPUT_TEXT_BYTES);
                }
            }
            "settled" => {
                let content = body.get("content").and_then(Value::as_array);
                let content = content.into_iter().flatten();
                let texts = content.filter_map(|part| part.get("text").and_then(Value::as_str));
                push_ends(&mut self.words, texts.chain(failure_message(body)));
            }
            _ => {}
        }
    }

    /// All searchable text.
    pub(crate) fn search_text(&self) -> String {
        format!(
            "{} {}\n{}\n{}",
            self.listed.asked_tool,
            self.listed.tool.as_deref().unwrap_or_default(),
            self.listed.summary,
            self.words
        )
    }
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

/// Adds consecutive texts: all of them, or the beginning and the end.
fn push_ends<'a>(words: &mut String, texts: impl DoubleEndedIterator<Item = &'a str> + Clone) {
    let total: usize = texts.clone().map(|text| text.len() + 1).sum();
    let cap = words.len() + MAX_OUTPUT_TEXT_BYTES;
    if total <= MAX_OUTPUT_TEXT_BYTES {
        texts.for_each(|text| push_capped(words, text, cap));
        return;
    }
    let half = words.len() + MAX_OUTPUT_TEXT_BYTES / 2;
    texts
        .clone()
        .for_each(|text| push_capped(words, text, half));
    let mut ends: Vec<&str> = Vec::new();
    let mut room = MAX_OUTPUT_TEXT_BYTES / 2;
    for text in texts.rev() {
        let mut from = text.len().saturating_sub(room);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        ends.extend(text.get(from..));
        room = room.saturating_sub(text.len() - from + 1);
    }
    for end in ends.into_iter().rev() {
        // Short enough already; a cap would cut off the last word.
        push_capped(words, end, usize::MAX);
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
