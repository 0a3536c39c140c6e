//! Why a command could not go on: an exit code, what went wrong, and what to do next. The hint is
//! an argument, not an option: an error without one is not finished.

use std::error::Error;

use crate::exit::Exit;

/// A command could not go on.
#[derive(Debug)]
pub(crate) struct Stop {
    exit: Exit,
    message: Option<String>,
    hint: String,
}

impl Stop {
    /// Ends with a code, what went wrong and what to do next.
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

    /// The command line asks for something that cannot be.
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

    /// The reader of our output has gone away, which is no fault of anybody.
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

    /// What went wrong; nothing when there is nothing to say.
    pub(crate) fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

/// An error and everything it was caused by, on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
