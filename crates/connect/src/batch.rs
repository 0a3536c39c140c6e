//! How much is handed on at a time, and how much of one row at all. What is too large ends the call:
//! a value that was cut would be taken for the whole.

use haft_contract::{ErrorKind, ops::OpsError};

/// How many rows are handed on at a time.
pub const BATCH_ROWS: usize = 500;

/// How many bytes of rows are handed on at a time, unless one row has more.
pub(crate) const BATCH_BYTES: usize = 1024 * 1024;

/// The largest value of a row, in bytes as it is handed on.
pub(crate) const MAX_VALUE_BYTES: usize = 4 * 1024 * 1024;

/// The largest row, in bytes as it is handed on.
pub(crate) const MAX_ROW_BYTES: usize = 8 * 1024 * 1024;

/// What a value costs besides its text.
const VALUE_BYTES: usize = size_of::<serde_json::Value>();

/// The size of one row, as its values are added.
#[derive(Debug, Default)]
pub(crate) struct RowSize(usize);

impl RowSize {
    /// Adds a value of so many bytes, before it is copied.
    pub(crate) fn add(&mut self, bytes: usize, column: &str) -> Result<(), OpsError> {
        self.0 = self.0.saturating_add(bytes).saturating_add(VALUE_BYTES);
        if bytes > MAX_VALUE_BYTES {
            return Err(too_large(&format!(
                "a value of the column `{}` has {bytes} bytes, and at most {MAX_VALUE_BYTES} are \
                 returned",
                shown(column)
            )));
        }
        if self.0 > MAX_ROW_BYTES {
            return Err(too_large(&format!(
                "a row has more than the {MAX_ROW_BYTES} bytes that are returned"
            )));
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0
    }
}

pub(crate) fn too_large(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::LimitExceeded,
        format!("{what}; ask for fewer columns, or for a part with `substr`"),
    )
}

fn shown(column: &str) -> String {
    let visible = column.chars().filter(|c| !c.is_control());
    visible.take(64).collect()
}
