//! A call that ends before it runs, and which terminal state an error means.

use haft_contract::{
    ErrorKind, Terminal, ToolError, ToolKey,
    outcome::{DeniedBy, Facts},
};

/// A call that was stopped by a stage.
#[derive(Debug)]
pub struct HaltedCall {
    pub(super) error: Box<ToolError>,
    pub(super) tool: Option<ToolKey>,
    pub(super) facts: Box<Facts>,
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

    /// The error alone, where no call is settled with it.
    pub(crate) fn into_error(self) -> ToolError {
        *self.error
    }

    /// Says what refused the call, where the kind of error alone does not.
    pub(crate) fn denied_by(mut self, by: DeniedBy) -> Self {
        self.facts.denied_by = Some(by);
        self
    }
}

/// How a call ends that fails with this kind of error.
pub(super) fn terminal_of(kind: ErrorKind) -> Terminal {
    match kind {
        ErrorKind::OutsideWorkspace
        | ErrorKind::WorkspaceMoved
        | ErrorKind::Protected
        | ErrorKind::Symlink
        | ErrorKind::NotInPlan
        | ErrorKind::Denied
        | ErrorKind::TierUnavailable
        | ErrorKind::MissingScope => Terminal::Denied,
        // It was started, and nobody can say how it ended.
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

/// What refuses with this kind of error, where that is always the same.
pub(super) fn refused_by(kind: ErrorKind) -> Option<DeniedBy> {
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
