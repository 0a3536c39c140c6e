//! The program's exit codes, for scripts to rely on. Each number means one thing and never changes
//! its meaning; `haft --help` lists them.

use std::process::ExitCode;

use haft_contract::{ErrorKind, Outcome, Terminal, host::Verdict};

/// The exit codes of `haft`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Ok,
    /// The call failed, a check of `doctor` failed, or something went wrong that has no other code.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The call was denied: by a rule, by a person, or because nobody was there to ask.
    Denied,
    /// The call exceeded its deadline.
    TimedOut,
    /// The call was stopped.
    Cancelled,
    /// The call was started and it is not known how it ended.
    Unknown,
    /// The configuration cannot be used: it has a mistake, or is not trusted.
    Config,
    /// The record cannot be opened, or has been altered.
    Ledger,
    /// `policy check`: a person would be asked.
    Asks,
    /// There is no such call, tool or question.
    NotFound,
    /// `approve`, `deny`: the question was not answered.
    NotAnswered,
}

impl Exit {
    /// Every code, in order.
    pub(crate) const ALL: [Self; 12] = [
        Self::Ok,
        Self::Failed,
        Self::Usage,
        Self::Denied,
        Self::TimedOut,
        Self::Cancelled,
        Self::Unknown,
        Self::Config,
        Self::Ledger,
        Self::Asks,
        Self::NotFound,
        Self::NotAnswered,
    ];

    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Denied => 3,
            Self::TimedOut => 4,
            Self::Cancelled => 5,
            Self::Unknown => 6,
            Self::Config => 7,
            Self::Ledger => 8,
            Self::Asks => 9,
            Self::NotFound => 10,
            Self::NotAnswered => 11,
        }
    }

    /// What it means, in one line.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done; the call succeeded",
            Self::Failed => "the call failed, or a check did",
            Self::Usage => "the command line is not valid",
            Self::Denied => "denied by a rule, by a person, or because nobody was there to ask",
            Self::TimedOut => "the call exceeded its deadline",
            Self::Cancelled => "the call was stopped",
            Self::Unknown => "the call was started and nobody can say how it ended",
            Self::Config => "the configuration has a mistake or is not trusted",
            Self::Ledger => "the record cannot be used, or fails verification",
            Self::Asks => "`policy check`: a person would be asked",
            Self::NotFound => "there is no such call, tool or question",
            Self::NotAnswered => {
                "`approve`, `deny`: not answered, because the question is closed, the plan differs, or nobody said yes"
            }
        }
    }

    /// The code for a call's outcome.
    pub(crate) fn of_call(outcome: &Outcome) -> Self {
        let kind = outcome.error.as_ref().map(|error| error.kind);
        if kind == Some(ErrorKind::UnknownTool) {
            return Self::NotFound;
        }
        match outcome.terminal {
            Terminal::Succeeded => Self::Ok,
            Terminal::Failed => Self::Failed,
            Terminal::Denied => Self::Denied,
            Terminal::TimedOut => Self::TimedOut,
            Terminal::Cancelled => Self::Cancelled,
            Terminal::Unknown => Self::Unknown,
        }
    }

    /// The code for a policy verdict.
    pub(crate) fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Ok,
            Verdict::Ask => Self::Asks,
            Verdict::Deny => Self::Denied,
        }
    }
}

/// The exit code of a program that was told twice to stop, as shells report an interrupt.
pub(crate) const STOPPED_AT_ONCE: i32 = 130;

/// What `haft --help` ends with: where to start, and every exit code.
pub(crate) fn after_help() -> String {
    let start = "Start with `haft init` in a directory an agent may work in.";
    let own = Exit::ALL.map(|exit| format!("\n  {:>3}  {}", exit.code(), exit.meaning()));
    let own = own.concat();
    format!("{start}\n\nExit codes:{own}\n  {STOPPED_AT_ONCE:>3}  Ctrl-C was pressed twice")
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_its_own_number() {
        for (number, exit) in Exit::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(exit.code()), number);
        }
    }
}
