//! What a parser found in a script: its simple commands, in written order, and the form in which both
//! parsers' commands are compared. Read next: `parse.rs` and `second.rs`, which fill it.

use super::{unclear::UnclearReason, word::Word};

/// A simple command, or another statement, which `unclear` then says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedCommand {
    /// As written.
    pub(super) text: String,
    pub(super) assignments: Vec<Assignment>,
    /// The program and its arguments; empty if there is only an assignment or a redirection.
    pub(super) words: Vec<Word>,
    pub(super) redirections: Vec<Redirection>,
    /// Redirections and here-documents, as written.
    pub(super) beside: Vec<String>,
    pub(super) unclear: Vec<UnclearReason>,
}

/// A variable set for one command or for the rest of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) raw: String,
    /// Whether its value is known.
    pub(super) literal: bool,
}

/// A redirection to or from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) operator: String,
    pub(super) target: Word,
}

#[derive(Debug)]
pub(super) struct ParsedScript {
    pub(super) commands: Vec<ParsedCommand>,
    /// Whether the whole text parsed as a script.
    pub(super) complete: bool,
}

/// A command in a form common to both parsers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FlatCommand {
    pub(super) assignments: Vec<String>,
    pub(super) words: Vec<String>,
    pub(super) redirections: usize,
}

impl FlatCommand {
    pub(super) fn of(simple: &ParsedCommand) -> Self {
        Self {
            assignments: simple
                .assignments
                .iter()
                .map(|assignment| assignment.raw.clone())
                .collect(),
            words: simple.words.iter().map(|word| word.raw.clone()).collect(),
            redirections: simple.redirections.len(),
        }
    }
}

/// The second parser's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "shell")),
    expect(dead_code, reason = "without a parser there is one verdict")
)]
pub(super) enum SecondOpinion {
    /// The same commands with the same words.
    Agrees,
    /// Different commands or words.
    Differs,
    /// It is not a script.
    Refuses,
    /// It was not asked.
    Silent,
}
