//! How children are confined on the machine that serves a workspace: the operator's settings, to be
//! combined with that machine's facts.

use std::time::Duration;

use haft_sandbox::Limits;

/// The operator's sandbox settings for another machine. Paths are on that machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteSandbox {
    /// More paths to show read-only.
    pub read_only: Vec<String>,
    /// More paths to show writable.
    pub writable: Vec<String>,
    /// Whose toolchains are shown.
    pub toolchains: Toolchains,
    /// What differs from that machine's defaults.
    pub limits: RemoteLimits,
}

/// Whose toolchains a sandboxed command sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Toolchains {
    /// Those of the account that serves the workspace.
    #[default]
    OfTheAccount,
    /// Nobody's.
    None,
    /// Those in this home directory.
    In(String),
}

/// Limits that an operator set. Absent ones default to those of the machine.
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
    /// The limits of a machine, overridden by what the operator set.
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
