//! The size of a value as JSON, without writing it anywhere.

use std::io::{Error, ErrorKind, Result, Write};

use serde_json::Value;

/// How many bytes a value takes as compact JSON; `None` if more than `most`.
pub(crate) fn json_bytes_within(value: &Value, most: usize) -> Option<usize> {
    let mut counted = CountingWriter { bytes: 0, most };
    serde_json::to_writer(&mut counted, value).ok()?;
    Some(counted.bytes)
}

/// Counts the bytes written to it, up to a limit.
struct CountingWriter {
    bytes: usize,
    most: usize,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.most {
            return Err(Error::from(ErrorKind::FileTooLarge));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_as_large_as_its_text() {
        let value = json!({"a": [1, "é"]});
        let bytes = value.to_string().len();
        assert_eq!(json_bytes_within(&value, bytes), Some(bytes));
        assert_eq!(json_bytes_within(&value, bytes - 1), None);
    }
}
