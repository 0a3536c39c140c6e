//! What a reader gives up before it sees the document: memory and processor time beyond a little, and
//! every system call but those for using memory and its two pipes.
//!
//! It can open nothing, start nothing, connect to nothing and signal nobody but itself: any other call
//! ends it. Files are not even named here, because a process that opens none needs no list of them.

use std::{collections::BTreeMap, time::Duration};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, setrlimit},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The most memory that reading a document may take.
pub const MEMORY_BYTES: u64 = 256 * 1024 * 1024;

/// The most processor time that it may take.
pub const CPU_TIME: Duration = Duration::from_secs(2);

/// Calls that only use what the process has already.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_write,
];

/// Calls that may make memory, but none that can be executed: the call, and where its rights are.
const MAPPING: [(libc::c_long, u8); 2] = [(libc::SYS_mmap, 2), (libc::SYS_mprotect, 2)];

/// Confines the calling process, which must have one thread, for good.
pub(super) fn confine() -> Result<(), Errno> {
    let seconds = CPU_TIME.as_secs();
    limit(Resource::As, MEMORY_BYTES, MEMORY_BYTES)?;
    // The first ends it with a signal that says why.
    limit(Resource::Cpu, seconds, seconds + 1)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    let filter = filter().map_err(|_| Errno::INVAL)?;
    // Also gives up getting rights by executing.
    seccompiler::apply_filter(&filter).map_err(|_| Errno::PERM)
}

fn limit(resource: Resource, current: u64, maximum: u64) -> Result<(), Errno> {
    let limit = Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    setrlimit(resource, limit)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut table: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, argument) in MAPPING {
        let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
        let never = SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(executable),
            0,
        )?;
        table.insert(call, vec![SeccompRule::new(vec![never])?]);
    }
    // Ending itself, which is how memory that is not there shows. It knows no other process.
    let own = u64::from(
        rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs(),
    );
    let itself = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)?;
    table.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![itself])?]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        table,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        architecture,
    )?;
    BpfProgram::try_from(filter)
}
