//! Errors of the host: the kind of failure, what happened, and what to do next. The hint is a
//! required argument, because an error without one is not finished.
//!
//! Exit codes and status codes belong to the edges; each maps [`HostErrorKind`] to its numbers.

use std::error::Error;

use haft_contract::surface::NextStep;

/// Something could not be assembled, read or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    kind: HostErrorKind,
    message: String,
    hint: String,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostErrorKind {
    /// The configuration has a mistake, or is not trusted.
    Config,
    /// Invalid input, such as a malformed name.
    Invalid,
    /// Something that was named does not exist.
    NotFound,
    /// Not done, because a precondition does not hold.
    Refused,
    /// The record cannot be opened or read.
    Record,
    /// Something does not respond: a workspace on another machine, an address.
    Unavailable,
}

impl HostError {
    /// An error with its kind, what happened and what to do next.
    pub fn new(kind: HostErrorKind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The configuration cannot be used.
    pub fn config(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(HostErrorKind::Config, message, hint)
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> HostErrorKind {
        self.kind
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do next.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// Reading the record failed.
pub fn unreadable_record(error: &(dyn Error + 'static)) -> HostError {
    HostError::new(
        HostErrorKind::Record,
        chain(error),
        NextStep::CheckRecord.words(),
    )
}

/// An error and all its causes, on one line.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
