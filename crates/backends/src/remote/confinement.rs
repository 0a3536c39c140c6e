//! How children are confined on the machine a workspace is served on: what the operator said, to
//! be joined with what that machine is like.

use std::time::Duration;

use haft_sandbox::Limits;

/// What an operator says about sandboxes on another machine. Places are places over there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteSandbox {
    /// More places to show read-only.
    pub read_only: Vec<String>,
    /// More places to show writable.
    pub writable: Vec<String>,
    /// Whose toolchains are shown.
    pub toolchains: Toolchains,
    /// What differs from that machine's defaults.
    pub limits: RemoteLimits,
}

/// Whose toolchains a sandboxed command sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Toolchains {
    /// Those of the account the workspace is served by.
    #[default]
    OfTheAccount,
    /// Nobody's.
    None,
    /// Those in this home.
    In(String),
}

/// Limits that an operator set. What is absent is the default of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoteLimits {
    /// [`Limits::processes`].
    pub processes: Option<u32>,
    /// [`Limits::memory_bytes`].
    pub memory_bytes: Option<u64>,
    /// [`Limits::cpu_time`].
    pub cpu_time: Option<Duration>,
    /// [`Limits::cpu_weight`].
    pub cpu_weight: Option<u32>,
    /// [`Limits::cpu_percent`].
    pub cpu_percent: Option<u32>,
    /// [`Limits::file_bytes`].
    pub file_bytes: Option<u64>,
    /// [`Limits::open_files`].
    pub open_files: Option<u32>,
    /// [`Limits::tmp_bytes`].
    pub tmp_bytes: Option<u64>,
}

impl RemoteLimits {
    /// The limits of a machine, with what the operator set.
    pub(crate) fn over(self, machine: &Limits) -> Limits {
        Limits {
            processes: self.processes.unwrap_or(machine.processes),
            memory_bytes: self.memory_bytes.unwrap_or(machine.memory_bytes),
            cpu_time: self.cpu_time.unwrap_or(machine.cpu_time),
            cpu_weight: self.cpu_weight.unwrap_or(machine.cpu_weight),
            cpu_percent: self.cpu_percent.or(machine.cpu_percent),
            file_bytes: self.file_bytes.unwrap_or(machine.file_bytes),
            open_files: self.open_files.unwrap_or(machine.open_files),
            tmp_bytes: self.tmp_bytes.unwrap_or(machine.tmp_bytes),
        }
    }
}
