//! How a tool says that it could not do what was asked.
//!
//! A [`ToolError`] is written for the model: what went wrong, where in the input, what to do next.
//! Internal detail goes to the log, never into the message.

use std::fmt;

use serde_json::Value;

use crate::content::Content;

/// What sort of failure it was. Closed, so that a caller can match on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// The input does not fit the tool's schema or rules.
    InvalidInput,
    /// The text is not a usable path.
    InvalidPath,
    /// The path leads out of the workspace.
    OutsideWorkspace,
    /// The workspace root is no longer the directory that was opened.
    WorkspaceMoved,
    /// The path is one that no tool may change (`.git/hooks`, shell profiles, Haft's own files).
    Protected,
    /// Nothing exists at the path.
    NotFound,
    /// Something already exists at the path.
    AlreadyExists,
    /// A directory, device, FIFO or socket where a regular file is needed.
    NotRegularFile,
    /// Something that is not a directory where one is needed.
    NotDirectory,
    /// The path crosses a symlink where none may be followed.
    Symlink,
    /// The file changed since it was read.
    Conflict,
    /// An edit matched nowhere, or in more than one place.
    NoMatch,
    /// The operating system refused.
    AccessDenied,
    /// A cap was hit; the message names which.
    LimitExceeded,
    /// The tool tried to touch something its plan does not name.
    NotInPlan,
    /// No tool has that name.
    UnknownTool,
    /// Policy or a person refused, or there was nobody to ask.
    Denied,
    /// The required sandbox tier is not available here.
    TierUnavailable,
    /// The credential lacks a scope the tool needs.
    MissingScope,
    /// A command ended with a non-zero exit code or by a signal.
    CommandFailed,
    /// A tool that runs elsewhere reported a failure. Its own words are the content.
    ToolFailed,
    /// Something required is not available right now: the ledger, a server, a place in a queue.
    Unavailable,
    /// The connection was lost during the call; whether it took effect is not known.
    Lost,
    /// The deadline passed.
    TimedOut,
    /// The caller asked to stop, or went away.
    Cancelled,
    /// Reading or writing failed for a reason outside the call.
    Io,
    /// A fault in Haft or in the tool. The log has the detail.
    Internal,
}

impl ErrorKind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 27] = [
        Self::InvalidInput,
        Self::InvalidPath,
        Self::OutsideWorkspace,
        Self::WorkspaceMoved,
        Self::Protected,
        Self::NotFound,
        Self::AlreadyExists,
        Self::NotRegularFile,
        Self::NotDirectory,
        Self::Symlink,
        Self::Conflict,
        Self::NoMatch,
        Self::AccessDenied,
        Self::LimitExceeded,
        Self::NotInPlan,
        Self::UnknownTool,
        Self::Denied,
        Self::TierUnavailable,
        Self::MissingScope,
        Self::CommandFailed,
        Self::ToolFailed,
        Self::Unavailable,
        Self::Lost,
        Self::TimedOut,
        Self::Cancelled,
        Self::Io,
        Self::Internal,
    ];

    /// The name used in JSON, in the ledger and in documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::InvalidPath => "invalid_path",
            Self::OutsideWorkspace => "outside_workspace",
            Self::WorkspaceMoved => "workspace_moved",
            Self::Protected => "protected",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::NotRegularFile => "not_regular_file",
            Self::NotDirectory => "not_directory",
            Self::Symlink => "symlink",
            Self::Conflict => "conflict",
            Self::NoMatch => "no_match",
            Self::AccessDenied => "access_denied",
            Self::LimitExceeded => "limit_exceeded",
            Self::NotInPlan => "not_in_plan",
            Self::UnknownTool => "unknown_tool",
            Self::Denied => "denied",
            Self::TierUnavailable => "tier_unavailable",
            Self::MissingScope => "missing_scope",
            Self::CommandFailed => "command_failed",
            Self::ToolFailed => "tool_failed",
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Io => "io",
            Self::Internal => "internal",
        }
    }

    /// The kind with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a tool could not do what was asked.
#[derive(Debug, Clone)]
pub struct ToolError(Box<Inner>);

/// Boxed, so that the success path of every tool does not carry the size of a failure.
#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    at: Option<String>,
    hint: Option<String>,
    content: Vec<Content>,
    structured: Option<Value>,
}

impl ToolError {
    /// An error of a kind, with a message for the model: lower case, no final period.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            at: None,
            hint: None,
            content: Vec::new(),
            structured: None,
        }))
    }

    /// Shorthand for [`ErrorKind::InvalidInput`].
    pub fn invalid_input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Where in the input the error is, as a JSON pointer (`/edits/0/old`).
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.0.at = Some(pointer.into());
        self
    }

    /// What to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// What the tool produced before it failed; kept in the outcome.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.0.content.push(content);
        self
    }

    /// The structured output of a run that failed, such as a command's exit code.
    #[must_use]
    pub fn with_structured(mut self, structured: Value) -> Self {
        self.0.structured = Some(structured);
        self
    }

    /// What sort of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message for the model.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the input, as a JSON pointer.
    pub fn pointer(&self) -> Option<&str> {
        self.0.at.as_deref()
    }

    /// What to do next.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Takes the content and structured output the failed run left behind.
    pub fn take_output(&mut self) -> (Vec<Content>, Option<Value>) {
        (
            std::mem::take(&mut self.0.content),
            self.0.structured.take(),
        )
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ToolError {}

impl From<crate::path::PathError> for ToolError {
    fn from(error: crate::path::PathError) -> Self {
        use crate::path::PathError;
        let kind = match error {
            PathError::Outside(_) => ErrorKind::OutsideWorkspace,
            PathError::Empty | PathError::Nul | PathError::TooLong { .. } | PathError::Url(_) => {
                ErrorKind::InvalidPath
            }
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_word_and_parses_back() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::parse(kind.as_str()), Some(kind));
        }
    }
}
