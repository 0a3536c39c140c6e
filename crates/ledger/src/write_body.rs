//! Writes the stored form of an event: without secrets, within a size, and no deeper than it can be
//! read back.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::{redact::Redactor, row};

/// The largest body of one record. Output is capped far below this before it gets here.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// How deep a value may nest to be kept. JSON is read to a depth of 127, and a body adds a few levels.
const MAX_DEPTH: usize = 100;

/// Writes a stored form straight from its type. Only where a secret may be in it, or where it is too
/// large, is it looked at more closely; fields that must stay exact because they are looked up later
/// are kept. Returns whether something was left out.
pub(crate) fn write_body(
    bytes: &mut Vec<u8>,
    kept: &[&str],
    stored: &impl Serialize,
    redactor: &Redactor,
) -> bool {
    let start = bytes.len();
    if serde_json::to_writer(&mut *bytes, stored).is_err() {
        // Stored forms hold only strings, numbers and JSON values, so this cannot happen.
        bytes.truncate(start);
        bytes.extend_from_slice(b"{}");
        return true;
    }
    clean_body(bytes, start, kept, redactor)
}

/// Does the same with a stored form that was written before, from `start` on.
pub(crate) fn clean_body(
    bytes: &mut Vec<u8>,
    start: usize,
    kept: &[&str],
    redactor: &Redactor,
) -> bool {
    let written = bytes.get(start..).unwrap_or_default();
    if written.len() <= MAX_BODY_BYTES && !redactor.may_hold_secret(written) {
        return false;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(written) else {
        // What cannot be looked at is not kept.
        let stand_in = serde_json::to_string(&left_out_of(written)).unwrap_or_default();
        bytes.truncate(start);
        bytes.extend_from_slice(stand_in.as_bytes());
        return true;
    };
    let mut left_out = false;
    if let Value::Object(fields) = &mut value {
        for (name, field) in fields {
            if !kept.contains(&name.as_str()) {
                left_out |= redactor.value(field);
            }
        }
    }
    let mut text = value.to_string();
    while text.len() > MAX_BODY_BYTES && leave_out_largest(&mut value) {
        text = value.to_string();
        left_out = true;
    }
    if left_out {
        bytes.truncate(start);
        bytes.extend_from_slice(text.as_bytes());
    }
    left_out
}

/// A value that will be readable: one that nests too deeply is left out.
pub(crate) fn readable(value: &Value) -> Cow<'_, Value> {
    if is_within(value, MAX_DEPTH) {
        return Cow::Borrowed(value);
    }
    let text = value.to_string();
    let stand_in = serde_json::to_value(left_out_of(text.as_bytes()));
    Cow::Owned(stand_in.unwrap_or(Value::Null))
}

fn is_within(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return false;
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(items) => items.iter().all(|item| is_within(item, below)),
        Value::Object(fields) => fields.values().all(|field| is_within(field, below)),
    }
}

fn left_out_of(bytes: &[u8]) -> row::TooLarge {
    row::TooLarge {
        omitted_bytes: bytes.len(),
        blake3: blake3::hash(bytes).to_hex().to_string(),
    }
}

/// Replaces the largest field of a body with a placeholder. Returns whether that made it smaller.
fn leave_out_largest(body: &mut Value) -> bool {
    let Value::Object(fields) = body else {
        return false;
    };
    let sized = fields.values_mut().map(|field| (field.to_string(), field));
    let Some((text, largest)) = sized.max_by_key(|(text, _)| text.len()) else {
        return false;
    };
    let stand_in = serde_json::to_value(row::TooLarge {
        omitted_bytes: text.len(),
        blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
    });
    *largest = stand_in.unwrap_or(Value::Null);
    largest.to_string().len() < text.len()
}

/// The placeholder for arguments too long for a record.
pub(crate) fn too_large(text: &str) -> row::StoredArguments<'static> {
    let stand_in = serde_json::to_value(row::TooLarge {
        omitted_bytes: text.len(),
        blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
    });
    row::StoredArguments::Value(Cow::Owned(stand_in.unwrap_or(Value::Null)))
}
