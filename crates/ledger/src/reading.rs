//! What every query of the record has in common: how its values are read, its limit and its errors.

use haft_contract::{
    host::{LedgerError, LedgerErrorKind},
    surface::NextStep,
};

use crate::store::{FromCell, Row, StoreError};

/// The most rows one query returns.
pub(crate) const MAX_ROWS: usize = 10_000;

pub(crate) fn column<'r, T>(row: &'r Row, name: &str) -> Result<T, LedgerError>
where
    T: FromCell<'r>,
{
    row.get(name).map_err(|_| corrupt("a stored value"))
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn row_limit(limit: usize) -> i64 {
    i64::try_from(limit.min(MAX_ROWS)).unwrap_or(i64::MAX)
}

pub(crate) fn failed(error: StoreError) -> LedgerError {
    tracing::warn!(
        error = &error as &dyn std::error::Error,
        "the record could not be read"
    );
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "the record cannot be read right now",
    )
}

pub(crate) fn corrupt(what: &str) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Corrupt,
        format!(
            "{what} cannot be understood; {}",
            NextStep::VerifyRecord.words()
        ),
    )
}
