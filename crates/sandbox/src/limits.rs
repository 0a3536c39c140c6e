//! How much a confined command and everything it starts may use. Pure numbers, and the one place
//! that turns them into the kernel's limits per process; `cgroup/` does so for a whole tree.
//!
//! Must not guess: which limit was exceeded comes from counters and signals of the kernel
//! (`cgroup/`, `observe.rs`, [`exceeded_by`]), never from what a program printed.

use std::time::Duration;

use haft_contract::ops::{ExitStatus, Limit};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// Processes and threads.
pub const DEFAULT_PROCESSES: u32 = 2048;

/// Memory in bytes, on a machine that has at least twice as much.
pub const DEFAULT_MEMORY: u64 = 4 * GIB;

/// Processor time.
pub const DEFAULT_CPU_TIME: Duration = Duration::from_hours(1);

/// Share of the processors under contention; everything else has 100. Half, so that Haft itself and
/// what people run take precedence over what models start.
pub const DEFAULT_CPU_WEIGHT: u32 = 50;

/// The size of one file in bytes.
pub const DEFAULT_FILE_SIZE: u64 = 8 * GIB;

/// Open files of one process.
pub const DEFAULT_OPEN_FILES: u32 = 16384;

/// Bytes in the private temporary directory. They are in memory and count as memory too.
pub const DEFAULT_TEMPORARY: u64 = GIB;

/// The kernel counts bubblewrap and the init among the processes of the user; a cgroup does not.
/// With this much room for them, it is the cgroup that refuses a process, and it reports that.
const PROCESSES_OF_OURS: u64 = 16;

/// Time between the signal that a process has used up its processor time, which it may ignore, and
/// the one it cannot ignore.
const CPU_GRACE: Duration = Duration::from_secs(5);

/// Shells report a command killed by a signal with this plus the signal's number.
const SHELL_SIGNAL_BASE: i32 = 128;

const GIB: u64 = 1024 * 1024 * 1024;

/// What a confined command and everything it starts may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Processes and threads in total.
    pub processes: u32,
    /// Bytes of memory, in total if a cgroup is available, otherwise of each process.
    pub memory_bytes: u64,
    /// Processor time of each process; if all together use more, that is reported as exceeded.
    pub cpu_time: Duration,
    /// Share of contended processors; everything else has 100 (1 to 10,000).
    pub cpu_weight: u32,
    /// The most processor time per unit of time, in hundredths of one processor; `None` is
    /// unlimited.
    pub cpu_percent: Option<u32>,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Open files of one process.
    pub open_files: u32,
    /// Bytes in the private temporary directory.
    pub tmp_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: DEFAULT_PROCESSES,
            memory_bytes: DEFAULT_MEMORY,
            cpu_time: DEFAULT_CPU_TIME,
            cpu_weight: DEFAULT_CPU_WEIGHT,
            cpu_percent: None,
            file_bytes: DEFAULT_FILE_SIZE,
            open_files: DEFAULT_OPEN_FILES,
            tmp_bytes: DEFAULT_TEMPORARY,
        }
    }
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKeeper {
    /// A cgroup, for the whole tree, which also counts what it refuses.
    Cgroup,
    /// Only the limit of each process, which reports nothing.
    Process,
}

/// What enforces the limits that a cgroup enforces better than the limit of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitKeepers {
    /// For memory. The limit of each process counts what it may write to, so programs that reserve
    /// much more than they use (sanitizers) fail under it.
    pub memory: LimitKeeper,
    /// For the number of processes.
    pub processes: LimitKeeper,
}

impl LimitKeepers {
    /// No cgroup is used.
    pub const PROCESS: Self = Self {
        memory: LimitKeeper::Process,
        processes: LimitKeeper::Process,
    };

    /// A cgroup enforces all it can.
    pub const CGROUP: Self = Self {
        memory: LimitKeeper::Cgroup,
        processes: LimitKeeper::Cgroup,
    };
}

/// One limit the kernel enforces for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimit {
    /// What is limited.
    pub resource: ProcessResource,
    /// Where the kernel warns or refuses.
    pub soft: u64,
    /// Where it kills the process; also the highest value the process may raise the soft limit to.
    pub hard: u64,
}

/// What the kernel limits for each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessResource {
    /// Processes of the user, in its user namespace. The kernel exempts the machine's root.
    Processes,
    /// Memory the process can write to and shares with nobody.
    Data,
    /// Processor seconds.
    Cpu,
    /// The size of one file.
    FileSize,
    /// Open files.
    OpenFiles,
    /// Core files.
    Core,
}

impl ProcessResource {
    /// Every resource, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::Processes,
        Self::Data,
        Self::Cpu,
        Self::FileSize,
        Self::OpenFiles,
        Self::Core,
    ];

    /// The word for it in a sandbox description.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Data => "data",
            Self::Cpu => "cpu",
            Self::FileSize => "file_size",
            Self::OpenFiles => "open_files",
            Self::Core => "core",
        }
    }

    /// The resource with this word, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|resource| resource.as_str() == word)
    }

    fn of_kernel(self) -> Resource {
        match self {
            Self::Processes => Resource::Nproc,
            Self::Data => Resource::Data,
            Self::Cpu => Resource::Cpu,
            Self::FileSize => Resource::Fsize,
            Self::OpenFiles => Resource::Nofile,
            Self::Core => Resource::Core,
        }
    }
}

impl Limits {
    /// The defaults for a machine with this many bytes of memory: never more than half of it.
    #[must_use]
    pub fn for_machine(memory: u64) -> Self {
        let memory = DEFAULT_MEMORY.min(memory / 2);
        Self {
            memory_bytes: memory,
            // Temporary files are in memory; a quarter leaves the command room to use them.
            tmp_bytes: DEFAULT_TEMPORARY.min(memory / 4),
            ..Self::default()
        }
    }

    /// The defaults for this machine.
    #[must_use]
    pub fn for_this_machine() -> Self {
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = memory.lines().find_map(|line| {
            let number = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
            number.trim().parse::<u64>().ok()
        });
        total.map_or_else(Self::default, |kib| {
            Self::for_machine(kib.saturating_mul(1024))
        })
    }

    /// The kernel's limits for each process.
    #[must_use]
    pub fn per_process(&self, keepers: LimitKeepers) -> Vec<ProcessLimit> {
        // The kernel counts this one roughly, by clock ticks. With some room above the limit, the
        // exact count has also reached it when the kernel kills a process, and that is reported.
        let cpu = self.cpu_time.max(Duration::from_secs(1));
        let cpu = (cpu + (cpu / 20).max(Duration::from_secs(1))).as_secs();
        let processes = u64::from(self.processes);
        let processes = match keepers.processes {
            LimitKeeper::Cgroup => processes.saturating_add(PROCESSES_OF_OURS),
            LimitKeeper::Process => processes,
        };
        let mut limits = vec![
            exactly(ProcessResource::Processes, processes),
            ProcessLimit {
                resource: ProcessResource::Cpu,
                soft: cpu,
                hard: cpu.saturating_add(CPU_GRACE.as_secs()),
            },
            exactly(ProcessResource::FileSize, self.file_bytes),
            exactly(ProcessResource::OpenFiles, u64::from(self.open_files)),
            exactly(ProcessResource::Core, 0),
        ];
        match keepers.memory {
            LimitKeeper::Cgroup => {}
            LimitKeeper::Process => limits.push(exactly(ProcessResource::Data, self.memory_bytes)),
        }
        limits
    }
}

fn exactly(resource: ProcessResource, value: u64) -> ProcessLimit {
    ProcessLimit {
        resource,
        soft: value,
        hard: value,
    }
}

/// Sets limits of this process, for itself and everything it starts from now on. A limit that is
/// already lower is kept.
pub fn apply(limits: &[ProcessLimit]) -> Result<(), Errno> {
    for limit in limits {
        let resource = limit.resource.of_kernel();
        let highest = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        setrlimit(
            resource,
            Rlimit {
                current: Some(limit.soft.min(highest)),
                maximum: Some(limit.hard.min(highest)),
            },
        )?;
    }
    Ok(())
}

/// The limit whose signal ended a command, if one did. A shell reports the signal that killed its
/// last command as an exit code, so that counts as well.
pub fn exceeded_by(status: ExitStatus) -> Option<Limit> {
    let signal = match status {
        ExitStatus::Signal(signal) => signal,
        ExitStatus::Code(code) => code.checked_sub(SHELL_SIGNAL_BASE)?,
    };
    match signal {
        libc::SIGXCPU => Some(Limit::Cpu),
        libc::SIGXFSZ => Some(Limit::FileSize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_keeps_half_of_its_memory() {
        let small = Limits::for_machine(2 * GIB);
        assert_eq!(small.memory_bytes, GIB);
        assert_eq!(small.tmp_bytes, GIB / 4);
        let large = Limits::for_machine(64 * GIB);
        assert_eq!(large, Limits::default());
    }

    #[test]
    fn memory_of_each_process_is_bounded_only_where_the_tree_cannot_be() {
        let has_data = |bound| {
            Limits::default()
                .per_process(bound)
                .iter()
                .any(|limit| limit.resource == ProcessResource::Data)
        };
        assert!(!has_data(LimitKeepers::CGROUP));
        assert!(has_data(LimitKeepers::PROCESS));
    }

    #[test]
    fn a_cgroup_that_counts_processes_is_the_first_to_refuse_one() {
        let most = |keepers| {
            let limits = Limits::default().per_process(keepers);
            let mut found = limits.iter();
            found
                .find(|limit| limit.resource == ProcessResource::Processes)
                .map(|limit| limit.hard)
        };
        let exactly = u64::from(Limits::default().processes);
        assert!(most(LimitKeepers::CGROUP) > Some(exactly));
        assert_eq!(most(LimitKeepers::PROCESS), Some(exactly));
    }

    #[test]
    fn no_limit_allows_a_core_file_or_no_processor_time_at_all() {
        let limits = Limits {
            cpu_time: Duration::ZERO,
            ..Limits::default()
        };
        let find = |wanted| {
            limits
                .per_process(LimitKeepers::CGROUP)
                .into_iter()
                .find(|limit| limit.resource == wanted)
                .expect("a limit")
        };
        assert_eq!(find(ProcessResource::Core).hard, 0);
        assert_eq!(find(ProcessResource::Cpu).soft, 2);
        assert!(find(ProcessResource::Cpu).hard > 2);
    }

    #[test]
    fn every_word_is_read_back() {
        for resource in ProcessResource::ALL {
            assert_eq!(ProcessResource::parse(resource.as_str()), Some(resource));
        }
    }

    fn check(status: ExitStatus, expect: Option<Limit>) {
        assert_eq!(exceeded_by(status), expect, "{status:?}");
    }

    #[test]
    fn only_the_signals_of_limits_tell_of_one() {
        check(ExitStatus::Signal(libc::SIGXCPU), Some(Limit::Cpu));
        check(ExitStatus::Signal(libc::SIGXFSZ), Some(Limit::FileSize));
        check(ExitStatus::Code(128 + libc::SIGXFSZ), Some(Limit::FileSize));
        check(ExitStatus::Signal(libc::SIGKILL), None);
        check(ExitStatus::Code(libc::SIGXCPU), None);
        check(ExitStatus::Code(0), None);
        check(ExitStatus::Code(1), None);
    }
}
