//! Everything the command started, as its init sees it: the whole pid namespace, or all
//! descendants, which are reparented to the init when their parents end.
#![expect(unsafe_code, reason = "signals by number are only available from libc")]

use std::{collections::HashMap, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, WaitOptions},
};

use crate::wire::TreeTracking;

/// Between two rounds of killing, so that dying processes can go.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Signals a process group.
pub(super) fn signal_group(leader: Pid, signal: i32) {
    // SAFETY: touches no memory; a group that is gone is what was wanted.
    unsafe { libc::kill(-leader.as_raw_nonzero().get(), signal) };
}

/// Signals everything but this process.
pub(super) fn signal_all(tree: TreeTracking, signal: i32) {
    match tree {
        TreeTracking::Namespace => {
            // SAFETY: touches no memory. This is the first process of its namespace, so -1 means
            // everybody else in it.
            unsafe { libc::kill(-1, signal) };
        }
        TreeTracking::Descendants => {
            for pid in all() {
                // SAFETY: touches no memory. Each is a descendant, and stays in the process table
                // until this process or one it looks at has reaped it.
                unsafe { libc::kill(pid, signal) };
            }
        }
    }
}

/// Kills all descendants until none is left. The next round finds whatever forked meanwhile.
pub(super) fn kill_all() {
    // Finding processes takes a scan of the whole machine; mostly there are none left.
    while any_left() {
        signal_all(TreeTracking::Descendants, libc::SIGKILL);
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Reaps children that have ended, and returns whether any are left.
fn any_left() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Whether `process` is the only one of the tree left.
pub(super) fn only(process: Pid, tree: TreeTracking) -> bool {
    let one = process.as_raw_nonzero().get();
    match tree {
        TreeTracking::Namespace => ids().iter().all(|pid| *pid == 1 || *pid == one),
        TreeTracking::Descendants => all().iter().all(|pid| *pid == one),
    }
}

/// Everything that runs in the tree; in a namespace that includes this process.
pub(super) fn everything(tree: TreeTracking) -> Vec<i32> {
    match tree {
        TreeTracking::Namespace => ids(),
        TreeTracking::Descendants => all(),
    }
}

/// All descendants of this process. The kernel lists children if it was built to; otherwise this
/// looks at every process of the machine.
fn all() -> Vec<i32> {
    let this = rustix::process::getpid().as_raw_nonzero().get();
    if children_told_by_kernel(this).is_some() {
        return below(this, |pid| children_told_by_kernel(pid).unwrap_or_default());
    }
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in ids() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    below(this, |pid| children.remove(&pid).unwrap_or_default())
}

/// Everything below a process; `children` returns the children of one process.
fn below(process: i32, mut children: impl FnMut(i32) -> Vec<i32>) -> Vec<i32> {
    let mut found = Vec::new();
    let mut waiting = vec![process];
    while let Some(pid) = waiting.pop() {
        for child in children(pid) {
            found.push(child);
            waiting.push(child);
        }
    }
    found
}

/// The children of a process, from all its threads.
fn children_told_by_kernel(pid: i32) -> Option<Vec<i32>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut children = Vec::new();
    for thread in threads.flatten() {
        let told = std::fs::read_to_string(thread.path().join("children")).ok()?;
        children.extend(
            told.split_whitespace()
                .filter_map(|id| id.parse::<i32>().ok()),
        );
    }
    Some(children)
}

fn ids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything, including parentheses and spaces.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    rest.split(' ').nth(1)?.parse().ok()
}
