//! Turns any name a foreign provider uses into one that every model provider accepts.

use haft_contract::{ToolName, name::MAX_NAME_CHARS};
use sha2::{Digest as _, Sha256};

/// The length of the hash suffix, with its separator.
const SUFFIX_CHARS: usize = 9;

/// A valid name for a foreign one. A name that is already valid stays; any other has its invalid
/// characters replaced and gets a suffix that depends only on the original, so that two names that
/// would look alike stay distinct, also after a restart.
pub fn sanitise(raw: &str) -> ToolName {
    if let Ok(name) = ToolName::parse(raw) {
        return name;
    }
    let digest = Sha256::digest(raw.as_bytes());
    let number = digest
        .iter()
        .take(4)
        .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let suffix = format!("{number:08x}");
    let stem: String = raw
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(MAX_NAME_CHARS - SUFFIX_CHARS)
        .collect();
    let stem = if stem.is_empty() {
        "tool".to_owned()
    } else {
        stem
    };
    match ToolName::parse(&format!("{stem}_{suffix}")) {
        Ok(name) => name,
        // Unreachable by construction: the stem is clean and short. Fail closed with a fixed name.
        Err(_) => sanitise("tool"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_names_that_collide_after_sanitising_stay_apart() {
        assert_eq!(sanitise("read_file").as_str(), "read_file");
        assert_ne!(sanitise("a.b"), sanitise("a b"));
        assert_eq!(sanitise("a.b"), sanitise("a.b"));
        assert!(sanitise("a.b").as_str().starts_with("a_b_"));
        assert!(sanitise(&"x.".repeat(200)).as_str().len() <= MAX_NAME_CHARS);
        assert!(sanitise("").as_str().starts_with("tool_"));
    }
}
