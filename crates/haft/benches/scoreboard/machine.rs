//! What the figures were measured on, and how much memory a process holds. Names no host, user or
//! path: the figures are published.

use std::path::{Path, PathBuf};

/// Bytes of this process in memory now.
pub(crate) fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

/// Those of them that are not pages of a file: its heap, stacks and relocated tables.
pub(crate) fn anonymous_bytes() -> u64 {
    status_bytes("RssAnon:")
}

/// The most bytes of this process that were in memory since [`forget_peak`].
pub(crate) fn peak_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Starts measuring the peak anew.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// Cores, processor, memory and kernel in one line.
pub(crate) fn described() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gigabytes = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes / 1024.0 / 1024.0);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Only the version proper; what follows may name a machine.
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    format!("{cores} cores ({processor}), {gigabytes:.0} GB, Linux {kernel}")
}

/// The first of some programs that is installed.
pub(crate) fn program(names: &[&str]) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut candidates = names.iter().flat_map(|name| {
        path.split(':')
            .map(move |place| Path::new(place).join(name))
    });
    candidates
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("none of {names:?} is installed"))
}

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    kilobytes.unwrap().parse::<u64>().unwrap() * 1024
}
