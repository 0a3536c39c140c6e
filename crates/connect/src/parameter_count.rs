//! That a statement has as many placeholders as there are parameters.

use haft_contract::{ErrorKind, ops::OpsError};

/// A statement with another number of placeholders than there are parameters.
pub(crate) fn wrong_count(wanted: usize, given: usize) -> OpsError {
    let placeholders = match wanted {
        1 => "1 placeholder".to_owned(),
        more => format!("{more} placeholders"),
    };
    let message = format!("the statement has {placeholders}, and `params` has {given} values");
    OpsError::new(
        ErrorKind::InvalidInput,
        message.replace(" 1 values", " 1 value"),
    )
}
