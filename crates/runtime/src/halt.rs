//! A call that ends before it runs, and the mapping from errors to terminal states. Any part of the
//! runtime may halt a call; `pipeline::settle` records how it ended.

use haft_contract::{
    ErrorKind, Terminal, ToolError, ToolKey,
    outcome::{DeniedBy, Facts},
};

/// A call that a stage stopped.
#[derive(Debug)]
pub struct HaltedCall {
    pub(crate) error: Box<ToolError>,
    pub(crate) tool: Option<ToolKey>,
    pub(crate) facts: Box<Facts>,
}

impl HaltedCall {
    pub(crate) fn new(error: ToolError, tool: Option<ToolKey>, facts: Facts) -> Self {
        Self {
            error: Box::new(error),
            tool,
            facts: Box::new(facts),
        }
    }

    /// A call that ends before its tool is known.
    pub(crate) fn before_anything(error: ToolError) -> Self {
        Self::new(error, None, Facts::default())
    }

    /// Only the error, for when no call is settled with it.
    pub(crate) fn into_error(self) -> ToolError {
        *self.error
    }

    /// Sets what refused the call, if the kind of error does not tell.
    pub(crate) fn denied_by(mut self, by: DeniedBy) -> Self {
        self.facts.denied_by = Some(by);
        self
    }
}

/// The error of a call that was stopped before it ran.
pub(crate) fn cancelled() -> ToolError {
    ToolError::new(
        ErrorKind::Cancelled,
        "the call was cancelled before it was started",
    )
}

/// The terminal state of a call that fails with this kind of error.
pub(crate) fn terminal_of(kind: ErrorKind) -> Terminal {
    match kind {
        ErrorKind::OutsideWorkspace
        | ErrorKind::WorkspaceMoved
        | ErrorKind::Protected
        | ErrorKind::Symlink
        | ErrorKind::NotInPlan
        | ErrorKind::Denied
        | ErrorKind::TierUnavailable
        | ErrorKind::MissingScope => Terminal::Denied,
        // It was started, and how it ended is unknown.
        ErrorKind::Lost => Terminal::Unknown,
        ErrorKind::TimedOut => Terminal::TimedOut,
        ErrorKind::Cancelled => Terminal::Cancelled,
        ErrorKind::InvalidInput
        | ErrorKind::InvalidPath
        | ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::NotRegularFile
        | ErrorKind::NotDirectory
        | ErrorKind::Conflict
        | ErrorKind::NoMatch
        | ErrorKind::AccessDenied
        | ErrorKind::LimitExceeded
        | ErrorKind::UnknownTool
        | ErrorKind::CommandFailed
        | ErrorKind::ToolFailed
        | ErrorKind::Unavailable
        | ErrorKind::Io
        | ErrorKind::Internal => Terminal::Failed,
    }
}

/// What refused the call, if this kind of error has only one possible source.
pub(crate) fn refused_by(kind: ErrorKind) -> Option<DeniedBy> {
    match kind {
        ErrorKind::OutsideWorkspace
        | ErrorKind::WorkspaceMoved
        | ErrorKind::Symlink
        | ErrorKind::NotInPlan
        | ErrorKind::TierUnavailable => Some(DeniedBy::Sandbox),
        ErrorKind::Protected | ErrorKind::Denied | ErrorKind::MissingScope => {
            Some(DeniedBy::Policy)
        }
        _ => None,
    }
}
