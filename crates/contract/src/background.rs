//! Processes a session keeps beyond the call that started them.
//!
//! A call hands over a running child and gets an id for it. Later calls of the same session list
//! the kept processes, read their output from any offset, and act on them. No other session can
//! find them. The runtime keeps the table, and ends what is left when the session ends.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    access::{Command, ProcessAct},
    context::OutputSink,
    error::ToolError,
    future::BoxFuture,
    ops::{ChildExit, ProcessHandle, TerminalSize, Tier},
    path::WorkPath,
};

pub use crate::process_id::ProcessId;

/// The processes of one session, limited to what one call may do with them.
pub trait Background: Send + Sync {
    /// Keeps a running child, whose command the call's plan must name. The child is ended when the
    /// session ends, when its lifetime is over, or after a long time without use.
    fn keep(&self, keep: KeepRequest) -> Result<ProcessId, ToolError>;

    /// Stops handing a process's output to the call that started it. From then on it outlives the
    /// call. Returns the length of its log at that point.
    fn release(&self, id: ProcessId) -> BoxFuture<'_, Result<u64, ToolError>>;

    /// Waits for a process to end, with no time limit.
    fn ended(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Ends a process that was not released, with everything it started, and waits until it is
    /// gone.
    fn end(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Ends a process that was not released, and forgets one that has ended. Does not wait, so a
    /// caller that is going away can use it.
    fn abandon(&self, id: ProcessId);

    /// Every process the session keeps, oldest first.
    fn list(&self) -> BoxFuture<'_, Vec<KeptProcess>>;

    /// One process.
    fn look(&self, id: ProcessId) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Reads what a process printed, from `from` on, and marks it as shown.
    fn log(&self, id: ProcessId, from: LogStart, most: usize) -> Result<LogPage, ToolError>;

    /// Waits until there is something to read there, the process has ended, or it waits for input,
    /// up to a time limit.
    fn wait(
        &self,
        id: ProcessId,
        from: LogStart,
        at_most: Duration,
    ) -> BoxFuture<'_, Result<KeptProcess, ToolError>>;

    /// Acts on a process, which the call's plan must name.
    fn act(&self, id: ProcessId, act: ProcessAct) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// A child to keep.
pub struct KeepRequest {
    /// The child.
    pub process: Box<dyn ProcessHandle>,
    /// What it runs.
    pub command: Command,
    /// Its terminal, if it has one.
    pub terminal: Option<TerminalSize>,
    /// How long it may run; `None` means until the session ends.
    pub lifetime: Option<Duration>,
    /// Also receives its output, until the process is released.
    pub output: Option<Arc<dyn OutputSink>>,
}

/// A snapshot of a process that a session keeps.
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
    /// Its terminal, if it has one.
    pub terminal: Option<TerminalSize>,
    /// How long it has run.
    pub ran: Duration,
    /// Whether it is still running.
    pub state: ProcessState,
    /// Where the log starts: bytes before this offset are no longer kept.
    pub log_start: u64,
    /// Where the log ends: the next byte gets this offset.
    pub log_end: u64,
}

/// Whether a kept process is still running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Running {
        /// Whether it, or something it started, is blocked reading its input.
        waits_for_input: bool,
    },
    /// It has ended.
    Ended(ChildExit),
    /// It is gone, and how it ended is unknown.
    Lost,
}

/// Where to start reading a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// From this offset.
    At(u64),
    /// After the last byte the session was shown.
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
    /// How many of the requested bytes are no longer kept.
    pub dropped: u64,
    /// How many bytes are kept after the text.
    pub more: u64,
}

impl LogPage {
    /// The offset to continue from.
    pub fn next(&self) -> u64 {
        self.start + self.text.len() as u64
    }
}

impl KeptProcess {
    /// Whether it is still running.
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
