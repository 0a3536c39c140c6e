//! Processes a session keeps beyond the call that started them.
//!
//! A call hands a running child over and gets an id for it; later calls of the same session list
//! what is kept, read what it printed from any offset, and act on it. No other session can find
//! it. The runtime keeps the table and ends with the session what is left.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    access::{Command, ProcessAct},
    context::OutputSink,
    error::ToolError,
    future::BoxFuture,
    ops::{ChildExit, ProcessHandle, TerminalSize, Tier},
    path::WorkPath,
};

/// Names a kept process within its session: `p1`, `p2`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(u32);

impl ProcessId {
    /// The process a session kept at this place, counted from 1.
    pub fn new(number: u32) -> Self {
        Self(number)
    }

    /// Reads an id as it is shown; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('p')?;
        let number = digits.parse().ok()?;
        let written = Self(number);
        (written.to_string() == text).then_some(written)
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// The processes of one session, as one call may use them.
pub trait Background: Send + Sync {
    /// Keeps a running child, whose command the call's plan must name. It ends with the session, at
    /// the end of its time, or when nobody has asked for it for long.
    fn keep(&self, keep: KeepRequest) -> Result<ProcessId, ToolError>;

    /// Stops handing a process's output to the call that started it. From then on it outlives the
    /// call. How far its log had got.
    fn release(&self, id: ProcessId) -> BoxFuture<'_, Result<u64, ToolError>>;

    /// Waits for the end of a process, however long that takes.
    fn ended(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Ends a process that was not released, with everything it started, and waits for that.
    fn end(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Ends a process that was not released, and forgets one that has ended. Does not wait, and
    /// may be called by whoever goes away.
    fn abandon(&self, id: ProcessId);

    /// Every process the session keeps, oldest first.
    fn list(&self) -> BoxFuture<'_, Vec<KeptProcess>>;

    /// One process.
    fn look(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// What a process printed, from somewhere on. It counts as shown.
    fn log(&self, id: ProcessId, from: LogStart, most: usize) -> Result<LogPage, ToolError>;

    /// Waits until there is something to read there, the process has ended, or it waits for input;
    /// at most so long.
    fn wait(
        &self,
        id: ProcessId,
        from: LogStart,
        at_most: Duration,
    ) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Does something to a process, which the call's plan must name.
    fn act(&self, id: ProcessId, act: ProcessAct) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// A child to keep.
pub struct KeepRequest {
    /// The child.
    pub process: Box<dyn ProcessHandle>,
    /// What it runs.
    pub command: Command,
    /// Its terminal, where it has one.
    pub terminal: Option<TerminalSize>,
    /// How long it may run; until the session ends where there is none.
    pub lifetime: Option<Duration>,
    /// Takes its output as well, until the process is released.
    pub output: Option<Arc<dyn OutputSink>>,
}

/// A process a session keeps, at one moment.
#[derive(Debug, Clone)]
pub struct KeptProcess {
    /// Its name.
    pub id: ProcessId,
    /// What it runs.
    pub command: Command,
    /// The directory it was started in.
    pub cwd: WorkPath,
    /// How strongly it is confined.
    pub tier: Tier,
    /// Its terminal, where it has one.
    pub terminal: Option<TerminalSize>,
    /// How long it has run.
    pub ran: Duration,
    /// Whether it runs.
    pub state: ProcessState,
    /// Bytes of its log that are not kept any more: the log starts at this offset.
    pub log_start: u64,
    /// Bytes it has logged: the next one gets this offset.
    pub log_end: u64,
}

/// Whether a kept process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Running {
        /// Whether something of it is blocked reading its input.
        waits_for_input: bool,
    },
    /// It has ended.
    Ended(ChildExit),
    /// It is gone, and how it ended cannot be told.
    Lost,
}

/// Where to read a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// From this offset.
    At(u64),
    /// After what the session was shown last.
    Unread,
    /// The last bytes.
    End,
}

/// Part of a log. Offsets count bytes of clean text from the very first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The offset of the first byte of the text.
    pub start: u64,
    /// The text; it begins and ends between characters.
    pub text: String,
    /// Bytes asked for that are not kept any more.
    pub dropped: u64,
    /// Bytes that are kept after the text.
    pub more: u64,
}

impl LogPage {
    /// The offset to go on from.
    pub fn next(&self) -> u64 {
        self.start + self.text.len() as u64
    }
}

impl KeptProcess {
    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        match self.state {
            ProcessState::Running { .. } => true,
            ProcessState::Ended(_) | ProcessState::Lost => false,
        }
    }
}

impl fmt::Debug for KeepRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keep")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_only_as_it_is_shown() {
        assert_eq!(ProcessId::parse("p7"), Some(ProcessId::new(7)));
        for text in [
            "",
            "p",
            "7",
            "p07",
            "p+7",
            "P7",
            "p7 ",
            "p-1",
            "p99999999999",
        ] {
            assert_eq!(ProcessId::parse(text), None, "{text:?}");
        }
    }
}
