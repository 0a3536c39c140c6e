//! Child processes of one workspace.
//!
//! A child has its own session and process group, an environment built from empty, and ordered
//! output. Stopping it means stopping everything it started.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{OpsError, Refusal, Tier};
use crate::{
    access::Command, egress::EgressRules, future::BoxFuture, masks::Masks, path::WorkPath,
};

/// Process operations of one workspace.
pub trait ProcessOps: Send + Sync {
    /// Starts a child.
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>>;

    /// The masks among these that a child in this tier would be kept to. A back end that masks
    /// nothing holds none, and policy asks about what is not held.
    fn holds(&self, tier: Tier, masks: Masks) -> BoxFuture<'_, Result<Masks, OpsError>> {
        let _ = (tier, masks);
        Box::pin(async { Ok(Masks::NONE) })
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// The command.
    pub command: Command,
    /// The directory it starts in; the back end resolves it beneath the root.
    pub cwd: WorkPath,
    /// Variables beyond the fixed set every child gets. Names that change how other programs load
    /// or run code are refused.
    pub environment: BTreeMap<String, String>,
    /// How strongly it must be confined. A back end that cannot do so refuses.
    pub tier: Tier,
    /// What it reads on standard input.
    pub input: Input,
    /// A terminal of this size as its standard input, output and error. Everything it prints then
    /// arrives as [`Stream::Stdout`].
    pub terminal: Option<TerminalSize>,
    /// The hosts it may reach, through Haft's proxy. `None` means no network at all. A back end
    /// that cannot enforce this refuses.
    pub egress: Option<Arc<EgressRules>>,
    /// What lists these hosts, in the words of messages, if it is not the workspace's setting.
    pub hosts_named_in: Option<String>,
    /// The loopback it shares with other commands that have no network, so that it reaches their
    /// servers. `None`, or a back end that cannot share one, gives it its own.
    pub loopback: Option<SharedLoopback>,
    /// What it is kept from in the workspace. A back end that cannot mask all of it refuses.
    pub masks: Masks,
    /// What it is kept from as far as possible, in addition. A back end masks of it what it can and
    /// never refuses because of the rest.
    pub attempted_masks: Masks,
    /// Whether the child gets file descriptor 3 to write progress lines to, for script tools.
    pub progress_channel: bool,
    /// The SHA-256 the program file must have, for a program the operator trusted by hash. The back
    /// end checks the exact file it executes.
    pub pinned: Option<[u8; 32]>,
}

impl Spawn {
    /// A command in a directory, with no input, no extra variables and no progress channel.
    pub fn new(command: Command, cwd: WorkPath, tier: Tier) -> Self {
        Self {
            command,
            cwd,
            environment: BTreeMap::new(),
            tier,
            input: Input::Closed,
            terminal: None,
            egress: None,
            hosts_named_in: None,
            loopback: None,
            masks: Masks::NONE,
            attempted_masks: Masks::NONE,
            progress_channel: false,
            pinned: None,
        }
    }
}

/// Names a loopback that several commands share: those of one session in one workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SharedLoopback(Arc<str>);

impl SharedLoopback {
    /// The loopback of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a child reads on standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// End of file at once.
    Closed,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Whatever [`ProcessControls::write`] sends it, until it is closed.
    Open,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// A running child.
///
/// Dropping the handle kills the whole tree at once.
pub trait ProcessHandle: Send {
    /// The next chunk of output, in the order it was written; `None` when all streams have ended,
    /// or when the child has exited and a grandchild has held them open past the drain limit.
    ///
    /// Dropping the future loses nothing: the next call returns the chunk.
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>>;

    /// Waits for the child itself to end. Complete only once the output has been read to its end.
    fn wait(&mut self) -> BoxFuture<'_, Result<ChildExit, OpsError>>;

    /// Controls the child from elsewhere while its output is read here.
    fn controls(&self) -> Arc<dyn ProcessControls>;

    /// Ends the whole tree: SIGTERM, then SIGKILL after the grace period. Returns when it is gone.
    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>>;
}

/// Input, size and signals of a running child; shared, and harmless once it has ended.
pub trait ProcessControls: Send + Sync {
    /// Writes bytes to its standard input or terminal. Returns when all are written; fails when its
    /// input is not open, or when it has read nothing for a while.
    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Closes its standard input. On a terminal this sends the end-of-file key.
    fn close_input(&self) -> BoxFuture<'_, Result<(), OpsError>>;

    /// Resizes its terminal; fails if it has none.
    fn resize(&self, size: TerminalSize) -> BoxFuture<'_, Result<(), OpsError>>;

    /// Signals the child and everything in its process group.
    fn signal(&self, signal: ProcessSignal) -> BoxFuture<'_, Result<(), OpsError>>;

    /// Whether it, or something it started, is blocked reading its standard input or terminal.
    fn waits_for_input(&self) -> BoxFuture<'_, Result<bool, OpsError>>;
}

/// A signal a person or a model may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessSignal {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
    /// SIGHUP.
    HangUp,
    /// SIGQUIT.
    Quit,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
}

impl ProcessSignal {
    /// Every signal, in declaration order.
    pub const ALL: [Self; 9] = [
        Self::Interrupt,
        Self::Terminate,
        Self::Kill,
        Self::HangUp,
        Self::Quit,
        Self::User1,
        Self::User2,
        Self::Stop,
        Self::Continue,
    ];

    /// The usual name without `SIG`, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "int",
            Self::Terminate => "term",
            Self::Kill => "kill",
            Self::HangUp => "hup",
            Self::Quit => "quit",
            Self::User1 => "usr1",
            Self::User2 => "usr2",
            Self::Stop => "stop",
            Self::Continue => "cont",
        }
    }
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Counts up from 0 over all streams of the child, without gaps.
    pub sequence: u64,
    /// Which stream it came from.
    pub stream: Stream,
    /// The raw bytes.
    pub bytes: Vec<u8>,
}

/// A stream of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Progress lines of a script tool (file descriptor 3).
    Progress,
}

impl Stream {
    /// The name used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Progress => "progress",
        }
    }
}

/// How a child ended, with the limits and refusals that affected it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildExit {
    /// How it ended.
    pub status: ExitStatus,
    /// The limit that ended it or made part of it fail, as reported by the mechanism itself.
    pub exceeded: Option<Limit>,
    /// What the sandbox refused, as reported by the mechanisms themselves; only the first
    /// [`Refusal::MAX`].
    pub refusals: Vec<Refusal>,
}

impl ChildExit {
    /// An exit that no limit or refusal played a part in.
    pub fn plain(status: ExitStatus) -> Self {
        Self {
            status,
            exceeded: None,
            refusals: Vec::new(),
        }
    }
}

/// A resource limit of a child and everything it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Processes and threads.
    Processes,
    /// Memory.
    Memory,
    /// Processor time.
    Cpu,
    /// The size of one file.
    FileSize,
    /// Open files.
    OpenFiles,
    /// Space in temporary file systems of the sandbox.
    Disk,
}

impl Limit {
    /// Every limit, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::Processes,
        Self::Memory,
        Self::Cpu,
        Self::FileSize,
        Self::OpenFiles,
        Self::Disk,
    ];

    /// The name used in JSON, in the ledger and in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
            Self::OpenFiles => "open_files",
            Self::Disk => "disk",
        }
    }

    /// The limit with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.as_str() == word)
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with a code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}
