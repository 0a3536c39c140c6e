//! Why the record or an artifact could not be read or written. Stores, operations and hosts all
//! report it, so it is below all of them.

use std::fmt;

/// Why the ledger could not do what was asked.
#[derive(Debug, Clone)]
pub struct LedgerError {
    kind: LedgerErrorKind,
    message: String,
}

/// What sort of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerErrorKind {
    /// The store cannot be reached or written.
    Unavailable,
    /// The record does not exist.
    NotFound,
    /// A cap was hit.
    LimitExceeded,
    /// Stored data cannot be read.
    Corrupt,
    /// The write depends on something that no longer holds: an approval or a grant was used or
    /// revoked.
    Conflict,
    /// The session has since read from a source that the start was not judged against.
    ReadMore,
    /// A newer claim holds the call.
    Superseded,
    /// The call already has its outcome.
    Over,
}

impl LedgerError {
    /// An error of a kind.
    pub fn new(kind: LedgerErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// What sort of failure it was.
    pub fn kind(&self) -> LedgerErrorKind {
        self.kind
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LedgerError {}
