//! What an operator can set about a ledger. Every queue and wait of this crate has its cap here.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use haft_contract::host::Clock;

/// Calls that may be open at once in one process.
pub const MAX_CALLS_IN_FLIGHT: usize = 65_536;

/// Appends that may wait to be written at once.
pub const MAX_QUEUED_APPENDS: usize = 65_536;

/// Bytes that may wait to be written at once. What belongs to a call that is open is always taken
/// in; beyond this no further call is opened until something is written.
pub const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of what is queued that are written in one transaction.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long `open` waits for a place among the open calls and for space, unless set otherwise.
pub const OPEN_WAIT: Duration = Duration::from_secs(5);

/// How long an append waits for room in the queue.
pub const APPEND_WAIT: Duration = Duration::from_secs(5);

/// How long something that is merely queued waits for company before it is written.
pub const LINGER: Duration = Duration::from_millis(10);

/// Messages written in one transaction.
pub const MAX_BATCH: usize = 4_096;

/// Records between two signed checkpoints.
pub const CHECKPOINT_EVERY: u64 = 1_000;

/// How long spilled output, file pre-images and closed questions stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long each is kept.
    pub kept_for: Duration,
    /// How many bytes are kept in all; the oldest go first.
    pub max_total_bytes: u64,
}

impl Default for Retention {
    /// Thirty days, and 10 GiB.
    fn default() -> Self {
        Self {
            kept_for: Duration::from_hours(30 * 24),
            max_total_bytes: 10 * 1024 * 1024 * 1024,
        }
    }
}

/// Where the record is kept, how much may wait for it, and how long artifacts stay.
#[derive(Clone)]
pub struct LedgerOptions {
    /// The directory of the record. It is made private (0700) and belongs to this crate alone.
    pub directory: PathBuf,
    /// Tells the time at which interrupted calls are settled.
    pub clock: Arc<dyn Clock>,
    /// Exact values that must never be stored, beside the patterns that are always looked for.
    pub secrets: Vec<String>,
    /// Calls that may be open at once.
    pub max_calls_in_flight: usize,
    /// How long `open` waits for a place among the open calls, and for space.
    pub open_wait: Duration,
    /// Appends that may wait to be written at once.
    pub max_queued_appends: usize,
    /// Bytes that may wait to be written at once, by an estimate. When there are more, `open` waits.
    pub max_queued_bytes: usize,
    /// Messages written in one transaction; 1 gives one durable commit for each.
    pub max_batch: usize,
    /// How long something that is merely queued waits for company.
    pub linger: Duration,
    /// Records between two signed checkpoints.
    pub checkpoint_every: u64,
    /// What a start removes: artifacts once a day, questions that lapsed so long ago, and grants
    /// that have ended. Absent where the host calls
    /// [`expire_daily`](crate::FileArtifacts::expire_daily) itself; questions then stay.
    pub retention: Option<Retention>,
}

impl LedgerOptions {
    /// The usual limits, for a record in a directory.
    pub fn new(directory: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            directory: directory.into(),
            clock,
            secrets: Vec::new(),
            max_calls_in_flight: MAX_CALLS_IN_FLIGHT,
            open_wait: OPEN_WAIT,
            max_queued_appends: MAX_QUEUED_APPENDS,
            max_queued_bytes: MAX_QUEUED_BYTES,
            max_batch: MAX_BATCH,
            linger: LINGER,
            checkpoint_every: CHECKPOINT_EVERY,
            retention: Some(Retention::default()),
        }
    }

    /// Adds a value that must never be stored.
    #[must_use]
    pub fn secret(mut self, value: impl Into<String>) -> Self {
        self.secrets.push(value.into());
        self
    }
}

impl fmt::Debug for LedgerOptions {
    // The secrets are what must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerOptions")
            .field("directory", &self.directory)
            .field("secrets", &self.secrets.len())
            .field("max_calls_in_flight", &self.max_calls_in_flight)
            .finish_non_exhaustive()
    }
}
