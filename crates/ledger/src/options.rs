//! An operator's settings for a ledger. What a caller waits for or may fill has its cap here.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use haft_contract::host::Clock;

use crate::{artifacts::ObjectStorage, memory_record::MemoryRecord, store::NamedStore};

/// How many calls may be open at once in one process.
pub const MAX_CALLS_IN_FLIGHT: usize = 65_536;

/// How many appends may wait to be written.
pub const MAX_QUEUED_APPENDS: usize = 65_536;

/// How many bytes may wait to be written. Anything for an open call is always accepted; beyond
/// this, no new call is opened until something is written.
pub const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;

/// How many queued bytes are written in one transaction.
pub const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long `open` waits for an open-call slot and for space, by default.
pub const OPEN_WAIT: Duration = Duration::from_secs(5);

/// How long an append waits for room in the queue.
pub const APPEND_WAIT: Duration = Duration::from_secs(5);

/// How long a non-urgent message waits for others to join its transaction.
pub const LINGER: Duration = Duration::from_millis(10);

/// How long the events of a call that is still open wait for its end. Until then only this process
/// knows of it, unless something of it had to be durable.
pub const OPEN_LINGER: Duration = Duration::from_millis(100);

/// How many messages are written in one transaction.
pub const MAX_BATCH: usize = 4_096;

/// How many records lie between two signed checkpoints.
pub const CHECKPOINT_EVERY: u64 = 1_000;

/// How many grants a tenant may have.
pub const MAX_GRANTS: usize = 10_000;

/// How long spilled output, file pre-images and closed questions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long each item is kept.
    pub kept_for: Duration,
    /// The total bytes kept; the oldest are removed first.
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

/// Where the record is kept, how much may wait to be written, and how long artifacts are kept.
#[derive(Clone)]
pub struct LedgerOptions {
    /// The record's directory. It is made private (0700) and used by this crate alone.
    pub directory: PathBuf,
    /// The database of the record, as `postgres://user@host/database`; a file in `directory` if absent.
    /// What is signed with and the high-water mark are in `directory` all the same.
    pub database: Option<String>,
    /// The database that the program brings, in place of `database`.
    pub store: Option<NamedStore>,
    /// The record in memory that is opened instead of a directory.
    pub memory: Option<MemoryRecord>,
    /// Where artifacts are kept, if not in files in `directory`.
    pub artifacts: Option<ObjectStorage>,
    /// The clock for settling interrupted calls.
    pub clock: Arc<dyn Clock>,
    /// Exact values that must never be stored, in addition to the built-in patterns.
    pub secrets: Vec<String>,
    /// How many calls may be open at once.
    pub max_calls_in_flight: usize,
    /// How long `open` waits for an open-call slot and for space.
    pub open_wait: Duration,
    /// How many appends may wait to be written.
    pub max_queued_appends: usize,
    /// How many bytes may wait to be written, as an estimate. Beyond this, `open` waits.
    pub max_queued_bytes: usize,
    /// How many messages are written in one transaction; 1 gives each its own durable commit.
    pub max_batch: usize,
    /// How long a non-urgent message waits for others to join its transaction.
    pub linger: Duration,
    /// How long the events of a call that is still open wait for its end, to be written with it.
    pub open_linger: Duration,
    /// How many records lie between two signed checkpoints.
    pub checkpoint_every: u64,
    /// How many grants a tenant may have. Those that have ended do not count.
    pub max_grants: usize,
    /// What a start removes: artifacts once a day, questions that lapsed longer ago than this, and
    /// grants that have ended. Absent if the host calls
    /// [`expire_daily`](crate::ExpiringArtifacts::expire_daily) itself; questions are then kept.
    pub retention: Option<Retention>,
}

impl LedgerOptions {
    /// The default limits, for a record in `directory`.
    pub fn new(directory: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            directory: directory.into(),
            database: None,
            store: None,
            memory: None,
            artifacts: None,
            clock,
            secrets: Vec::new(),
            max_calls_in_flight: MAX_CALLS_IN_FLIGHT,
            open_wait: OPEN_WAIT,
            max_queued_appends: MAX_QUEUED_APPENDS,
            max_queued_bytes: MAX_QUEUED_BYTES,
            max_batch: MAX_BATCH,
            linger: LINGER,
            open_linger: OPEN_LINGER,
            checkpoint_every: CHECKPOINT_EVERY,
            max_grants: MAX_GRANTS,
            retention: Some(Retention::default()),
        }
    }

    /// The default limits, for a record in memory.
    pub fn in_memory(record: &MemoryRecord, clock: Arc<dyn Clock>) -> Self {
        Self {
            memory: Some(record.clone()),
            ..Self::new("", clock)
        }
    }

    /// Keeps the record in this database instead of a file.
    #[must_use]
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Keeps the record in a database of the program's own instead of a file. What is signed with, and
    /// artifacts, are in `directory` all the same.
    #[must_use]
    pub fn store(mut self, store: NamedStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Keeps artifacts in this storage instead of files.
    #[must_use]
    pub fn artifacts(mut self, storage: ObjectStorage) -> Self {
        self.artifacts = Some(storage);
        self
    }

    /// Adds a value that must never be stored.
    #[must_use]
    pub fn secret(mut self, value: impl Into<String>) -> Self {
        self.secrets.push(value.into());
        self
    }
}

impl fmt::Debug for LedgerOptions {
    // The secrets must not be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerOptions")
            .field("directory", &self.directory)
            // Its address may have a password.
            .field("has_database", &self.database.is_some())
            .field("store", &self.store)
            .field("memory", &self.memory)
            .field("artifacts", &self.artifacts)
            .field("secrets", &self.secrets.len())
            .field("max_calls_in_flight", &self.max_calls_in_flight)
            .finish_non_exhaustive()
    }
}
