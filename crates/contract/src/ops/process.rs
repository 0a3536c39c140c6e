//! Child processes of one workspace.
//!
//! A child has its own session and process group, an environment built from empty, and ordered
//! output. Stopping it means stopping everything it started.

use std::{collections::BTreeMap, time::Duration};

use super::{OpsError, Tier};
use crate::{access::Command, future::BoxFuture, path::WorkPath};

/// Process operations of one workspace.
pub trait ProcessOps: Send + Sync {
    /// Starts a child.
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>>;
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
    /// How strongly it must be confined. A back end that cannot refuses.
    pub tier: Tier,
    /// Bytes to give it on standard input, then end of file. `None` closes standard input at once.
    pub stdin: Option<Vec<u8>>,
    /// Whether the child gets file descriptor 3 to write progress lines to, for script tools.
    pub progress_channel: bool,
    /// The SHA-256 the program file must have, for a program the operator trusted by hash. The
    /// back end checks the very file it executes.
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
            stdin: None,
            progress_channel: false,
            pinned: None,
        }
    }
}

/// A running child.
///
/// Dropping the handle kills the whole tree at once.
pub trait ProcessHandle: Send {
    /// The next chunk of output, in the order it was written; `None` when all streams have ended,
    /// or when the child has exited and a grandchild has held them open past the drain limit.
    fn next_chunk(&mut self) -> BoxFuture<'_, Option<OutputChunk>>;

    /// Waits for the child itself to end.
    fn wait(&mut self) -> BoxFuture<'_, Result<ExitStatus, OpsError>>;

    /// Ends the whole tree: SIGTERM, then SIGKILL after the grace. Returns when it is gone.
    fn stop(&mut self, grace: Duration) -> BoxFuture<'_, Result<(), OpsError>>;
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
    /// The word used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Progress => "progress",
        }
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
