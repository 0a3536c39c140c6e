//! Why a command could not continue: an exit code, what went wrong, and what to do next. The hint
//! is a required argument: an error without one is unfinished.

use haft_host::{HostError, HostErrorKind, error::chain};
use std::error::Error;

use crate::exit::Exit;

/// Ends a command with an error for the person.
#[derive(Debug)]
pub(crate) struct Stop {
    exit: Exit,
    message: Option<String>,
    hint: String,
}

impl Stop {
    /// Ends with an exit code, what went wrong and what to do next.
    pub(crate) fn new(exit: Exit, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit,
            message: Some(message.into()),
            hint: hint.into(),
        }
    }

    /// The configuration cannot be used.
    pub(crate) fn config(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Config, message, hint)
    }

    /// The command line asks for something impossible.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message, hint)
    }

    /// Reading the record failed.
    pub(crate) fn ledger(error: &(dyn Error + 'static)) -> Self {
        Self::new(
            Exit::Ledger,
            chain(error),
            "`haft doctor` checks the record",
        )
    }

    /// The reader of our output has gone away, which is not an error.
    pub(crate) fn reader_gone() -> Self {
        Self {
            exit: Exit::Ok,
            message: None,
            hint: String::new(),
        }
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What went wrong; `None` if there is nothing to say.
    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

impl From<HostError> for Stop {
    fn from(error: HostError) -> Self {
        let exit = match error.kind() {
            HostErrorKind::Config => Exit::Config,
            HostErrorKind::Invalid => Exit::Usage,
            HostErrorKind::NotFound => Exit::NotFound,
            HostErrorKind::Refused => Exit::Denied,
            HostErrorKind::Record => Exit::Ledger,
            // A kind newer than this program has no code of its own.
            HostErrorKind::Unavailable | _ => Exit::Failed,
        };
        Self::new(exit, error.message(), error.hint())
    }
}
