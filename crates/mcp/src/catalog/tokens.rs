//! What a tool's definition costs a model that is shown it, in tokens, without the model's
//! tokenizer.
//!
//! A definition is mostly JSON and English, of which a token covers about four and a half bytes.
//! Held against `o200k_base` over 102 tools of five public servers (everything, filesystem, github,
//! playwright, notion), this is between 14 % too low and 17 % too high for one tool, and between
//! 3 % too low and 7 % too high for a server. Text in other scripts is estimated too low.

use haft_runtime::registry::{Entry, Format};
use serde_json::Value;

/// Two tokens cover this many bytes.
const BYTES_OF_TWO_TOKENS: usize = 9;

/// About how many tokens a definition takes: name, description and input schema, which is what
/// clients hand to models.
pub fn tokens(entry: &Entry) -> usize {
    (json_bytes(entry.rendering(Format::Anthropic)) * 2).div_ceil(BYTES_OF_TWO_TOKENS)
}

/// How many bytes a value takes as JSON without spaces.
pub(super) fn json_bytes(value: &Value) -> usize {
    let mut counted = Counted(0);
    // Counting cannot fail, and a value of the registry has only text for keys.
    if serde_json::to_writer(&mut counted, value).is_err() {
        return usize::MAX / 2;
    }
    counted.0
}

/// Counts what is written to it.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
