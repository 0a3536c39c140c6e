//! What a tool's definition costs a model that is shown it, in tokens, without the model's
//! tokenizer.
//!
//! A definition is mostly JSON and English, of which a token covers about four and a half bytes.
//! Held against `o200k_base` over 102 tools of five public servers (everything, filesystem, github,
//! playwright, notion), this is between 14 % too low and 17 % too high for one tool, and between
//! 3 % too low and 7 % too high for a server. Text in other scripts is estimated too low.

use haft_runtime::registry::{Entry, Format};
use serde_json::Value;

use crate::size::json_bytes_within;

/// Two tokens cover this many bytes.
const BYTES_OF_TWO_TOKENS: usize = 9;

/// About how many tokens a definition takes: name, description and input schema, which is what
/// clients hand to models.
pub fn tokens(entry: &Entry) -> usize {
    (json_bytes(entry.rendering(Format::Anthropic)) * 2).div_ceil(BYTES_OF_TWO_TOKENS)
}

/// How many bytes a value takes as JSON without spaces.
pub(super) fn json_bytes(value: &Value) -> usize {
    // A value of the registry has only text for keys, so writing it cannot fail.
    json_bytes_within(value, usize::MAX).unwrap_or(usize::MAX / 2)
}
