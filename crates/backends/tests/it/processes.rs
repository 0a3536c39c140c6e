//! Processes of this machine, as the tests of lost connections find and end them.

use std::fs;

/// The children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default();
            after_name.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect()
}

/// The name of a process's program.
pub(crate) fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may be gone already.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}
