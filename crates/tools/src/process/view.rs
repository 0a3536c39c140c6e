//! How programs and models see a kept process.

use std::fmt::Write as _;

use haft_contract::{
    background::{KeptProcess, LogPage, ProcessState},
    ops::ExitStatus,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::display::{one_line, start_of};

/// The most of a command shown in a line.
const MAX_COMMAND_BYTES: usize = 120;

/// A process the session keeps.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProcessView {
    /// Its name.
    pub id: String,
    /// What it runs.
    pub command: String,
    /// The directory it was started in.
    pub cwd: String,
    /// Whether it runs.
    pub state: StateWord,
    /// Whether it, or something it started, waits for input.
    pub waits_for_input: bool,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// The exit code, once it has ended with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The resource limit it exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<&'static str>,
    /// What the sandbox did not let it do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// How long it has run, in milliseconds.
    pub ran_ms: u64,
    /// The offset at which its log starts; what was before is not kept.
    pub log_start: u64,
    /// The offset at which its log ends.
    pub log_end: u64,
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateWord {
    /// It runs.
    Running,
    /// It has ended.
    Ended,
    /// It is gone, and nobody knows how it ended.
    Lost,
}

/// Which part of a log was returned.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct LogView {
    /// The offset of the first byte returned.
    pub offset: u64,
    /// The offset to go on from.
    pub next_offset: u64,
    /// Bytes asked for that are not kept any more.
    pub dropped: u64,
    /// Bytes that follow and were not returned.
    pub more: u64,
}

impl ProcessView {
    pub(super) fn of(process: &KeptProcess) -> Self {
        let mut view = Self {
            id: process.id.to_string(),
            command: process.command.text(),
            cwd: process.cwd.to_string(),
            state: StateWord::Running,
            waits_for_input: false,
            terminal: process.terminal.is_some(),
            exit_code: None,
            signal: None,
            exceeded: None,
            refusals: Vec::new(),
            ran_ms: u64::try_from(process.ran.as_millis()).unwrap_or(u64::MAX),
            log_start: process.log_start,
            log_end: process.log_end,
        };
        match &process.state {
            ProcessState::Running { waits_for_input } => view.waits_for_input = *waits_for_input,
            ProcessState::Lost => view.state = StateWord::Lost,
            ProcessState::Ended(exit) => {
                view.state = StateWord::Ended;
                match exit.status {
                    ExitStatus::Code(code) => view.exit_code = Some(code),
                    ExitStatus::Signal(signal) => view.signal = Some(signal),
                }
                view.exceeded = exit.exceeded.map(haft_contract::ops::Limit::as_str);
                view.refusals = exit.refusals.iter().map(ToString::to_string).collect();
            }
        }
        view
    }

    /// One line with the process and its state.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{} ", self.id);
        // Writing to a `String` cannot fail.
        let _ = match (self.state, self.exit_code, self.signal) {
            (StateWord::Running, ..) if self.waits_for_input => {
                write!(line, "running, waits for input")
            }
            (StateWord::Running, ..) => write!(line, "running"),
            (StateWord::Ended, Some(code), _) => write!(line, "ended with exit code {code}"),
            (StateWord::Ended, None, Some(signal)) => write!(line, "ended by signal {signal}"),
            (StateWord::Ended, None, None) => write!(line, "ended"),
            (StateWord::Lost, ..) => write!(line, "gone; Haft does not know how it ended"),
        };
        if let Some(limit) = self.exceeded {
            let _ = write!(line, ", exceeded the limit `{limit}`");
        }
        let seconds = std::time::Duration::from_millis(self.ran_ms).as_secs_f64();
        let command = one_line(start_of(&self.command, MAX_COMMAND_BYTES));
        let _ = write!(line, ", after {seconds:.1} s: {command}");
        for refusal in &self.refusals {
            let _ = write!(line, "\n[sandbox: {refusal}]");
        }
        line
    }
}

impl LogView {
    pub(super) fn of(page: &LogPage) -> Self {
        Self {
            offset: page.start,
            next_offset: page.next(),
            dropped: page.dropped,
            more: page.more,
        }
    }
}
