//! Every cap of the runtime, with its default. Each has a key in `haft.toml` under `[limits]`.

use std::time::Duration;

/// The most open questions per session. More than anybody reads, and few enough that a flood does
/// not bury the important ones.
pub const OPEN_APPROVALS: usize = 100;

/// The caps of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight at once, including waiting ones; the next is refused as overloaded.
    pub calls_in_flight: usize,
    /// The same per tenant, so that no tenant starves the others.
    pub calls_in_flight_per_tenant: usize,
    /// How long a call may wait for locks.
    pub admission_wait: Duration,
    /// How long a person has to answer.
    pub approval_wait: Duration,
    /// The most open questions per session; the next call that would ask is denied.
    pub open_approvals: usize,
    /// No call runs longer than this, whatever its tool, its input or its caller says.
    pub hard_deadline: Duration,
    /// How long a tool that was told to stop has to do so before it is dropped.
    pub stop_grace: Duration,
    /// How long a result waits for its record to be durable before it is returned anyway.
    pub settle_wait: Duration,
    /// The largest file whose content is kept before it is changed.
    pub preimage_bytes: u64,
    /// The most rows of a database that are kept before one statement changes them.
    pub preimage_rows: u64,
    /// How much of its own making a session that has read from outsiders puts into requests to hosts
    /// before a person is asked.
    pub outgoing_bytes: u64,
    /// The largest structured output.
    pub structured_bytes: usize,
    /// How many items of one call are shown while it runs; the result is not cut.
    pub items: usize,
    /// The largest such item, in bytes of JSON.
    pub item_bytes: usize,
    /// Names that one tenant's tools look up at a time.
    pub lookups_per_tenant: usize,
    /// Documents of strangers that are read for one tenant at a time, each by a process.
    pub readers_per_tenant: usize,
    /// Caps on text output.
    pub output: OutputLimits,
    /// Caps on processes kept beyond a call.
    pub processes: ProcessLimits,
}

/// Caps on processes kept beyond a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Processes one session may keep in one workspace.
    pub per_session: usize,
    /// Processes all sessions of a tenant together may keep.
    pub per_tenant: usize,
    /// Processes all sessions together may keep.
    pub in_all: usize,
    /// How many of the newest bytes of output are kept for each.
    pub log_bytes: usize,
    /// How long an unused process keeps running.
    pub idle: Duration,
    /// How long the log of a process is kept after its end.
    pub finished: Duration,
}

/// Caps on text output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// Bytes kept from the start.
    pub head_bytes: usize,
    /// Bytes kept from the end.
    pub tail_bytes: usize,
    /// Bytes kept as an artifact when output is longer than both together.
    pub artifact_bytes: u64,
    /// Bytes kept of each stream for the structured output of a command.
    pub stream_bytes: usize,
}

impl OutputLimits {
    /// The most text a result holds.
    pub fn total(&self) -> usize {
        self.head_bytes + self.tail_bytes
    }

    /// The caps of the text of one stream.
    pub(crate) fn of_stream(self) -> Self {
        let half = self.stream_bytes / 2;
        Self {
            head_bytes: self.stream_bytes - half,
            tail_bytes: half,
            ..self
        }
    }
}

impl Default for OutputLimits {
    /// Less than 50,000 characters, including the lines that say what is missing. If a result is
    /// longer, Claude Code shows its model only the first 2,000 and the name of a file.
    fn default() -> Self {
        Self {
            head_bytes: 24_000,
            tail_bytes: 24_000,
            artifact_bytes: 256 * 1024 * 1024,
            stream_bytes: 8_000,
        }
    }
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            per_session: 64,
            per_tenant: 200,
            in_all: 200,
            log_bytes: 1024 * 1024,
            idle: Duration::from_hours(6),
            finished: Duration::from_mins(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls_in_flight: 16_384,
            calls_in_flight_per_tenant: 16_384,
            admission_wait: Duration::from_mins(1),
            approval_wait: Duration::from_mins(10),
            open_approvals: OPEN_APPROVALS,
            hard_deadline: Duration::from_hours(1),
            stop_grace: Duration::from_millis(1_500),
            settle_wait: Duration::from_secs(10),
            preimage_bytes: 256 * 1024 * 1024,
            preimage_rows: 10_000,
            outgoing_bytes: 16 * 1024,
            structured_bytes: 1024 * 1024,
            items: 10_000,
            item_bytes: 64 * 1024,
            lookups_per_tenant: 8,
            readers_per_tenant: 4,
            output: OutputLimits::default(),
            processes: ProcessLimits::default(),
        }
    }
}
