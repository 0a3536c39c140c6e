//! Tools that search for files and for text in them.

pub mod find;
pub mod grep;

/// The longest pattern accepted, in bytes. Longer ones are mistakes or attacks.
pub(crate) const MAX_PATTERN_BYTES: usize = 10 * 1024;

/// Refuses an empty or oversized pattern.
pub(crate) fn check_pattern(pattern: &str, pointer: &str) -> Result<(), haft_contract::ToolError> {
    use haft_contract::{ErrorKind, ToolError};
    if pattern.is_empty() {
        return Err(ToolError::invalid_input("the pattern is empty").at(pointer));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!(
                "the pattern has {} bytes, at most {MAX_PATTERN_BYTES} are accepted",
                pattern.len()
            ),
        )
        .at(pointer));
    }
    Ok(())
}
