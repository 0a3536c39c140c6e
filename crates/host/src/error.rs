//! Why the host could not go on: what kind of failure it is, what happened, and what to do next. The
//! hint is an argument, not an option: an error without one is not finished.
//!
//! Exit codes and status codes are the edges' own; each maps [`HostErrorKind`] to its numbers.

use std::error::Error;

/// Something could not be put together, read or opened.
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
    /// Somebody asked for something that cannot be, such as a name that is none.
    Invalid,
    /// Somebody named something that is not there.
    NotFound,
    /// It was not done, because what it rests on is not so.
    Refused,
    /// The record cannot be opened or read.
    Record,
    /// What should be there does not answer: a workspace on another machine, an address.
    Unavailable,
}

impl HostError {
    /// A failure of a kind, with what happened and what to do next.
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

/// An error and everything it was caused by, on one line.
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
