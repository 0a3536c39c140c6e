//! The search words of a call, from its events in stored form. Secrets were already removed.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{
    body::BodyEvent,
    listed::{ListedCall, access_text, accesses, failure_message},
};

/// How much of the input is searchable, in bytes.
const MAX_INPUT_TEXT_BYTES: usize = 16 * 1024;

/// How much of the output is searchable, in bytes: half from the beginning and half from the end,
/// where commands say what went wrong. Indexing is the most expensive part of writing a call, and
/// grows with this.
const MAX_OUTPUT_TEXT_BYTES: usize = 2 * 1024;

/// All searchable text of a call: its tool, its summary, input, commands, paths, and the beginning and
/// end of its output.
pub(crate) fn search_text<'a>(
    listed: &ListedCall,
    events: impl Iterator<Item = &'a BodyEvent>,
) -> String {
    let mut words = String::new();
    for event in events {
        absorb(&mut words, &event.kind, &event.body);
    }
    format!(
        "{} {}\n{}\n{}",
        listed.asked_tool,
        listed.tool.as_deref().unwrap_or_default(),
        listed.summary,
        words
    )
}

fn absorb(words: &mut String, kind: &str, body: &Value) {
    match kind {
        "opened" => {
            for arguments in ["/arguments/text", "/arguments/value"] {
                if let Some(arguments) = body.pointer(arguments) {
                    push_strings(words, arguments, MAX_INPUT_TEXT_BYTES);
                }
            }
        }
        "planned" => {
            words.clear();
            if let Some(input) = body.get("input") {
                push_strings(words, input, MAX_INPUT_TEXT_BYTES);
            }
            for access in accesses(body) {
                push_capped(words, &access_text(access), MAX_INPUT_TEXT_BYTES);
            }
        }
        "settled" => {
            let content = body.get("content").and_then(Value::as_array);
            let content = content.into_iter().flatten();
            let texts = content.filter_map(|part| part.get("text").and_then(Value::as_str));
            push_ends(words, texts.chain(failure_message(body)));
        }
        _ => {}
    }
}

/// A tenant as one word that no tokenizer splits.
pub(crate) fn tenant_token(tenant: &str) -> String {
    let mut token = String::from("t");
    for byte in tenant.bytes() {
        // Writing to a `String` cannot fail.
        let _ = write!(token, "{byte:02x}");
    }
    token
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
