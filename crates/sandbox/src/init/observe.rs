//! Which limit a command hit, where no cgroup counts it. The init sees it from signals, from
//! processor time, and by checking usage now and then.
//!
//! A check sees only the usage at that moment, so something that is used up and released between
//! two checks goes unseen; but what is reported is true. Nothing here is read from what a command
//! prints.

use std::{
    fs,
    time::{Duration, Instant},
};

use haft_contract::ops::{ExitStatus, Limit};
use rustix::fs::{StatVfs, statvfs};

use crate::{
    limits,
    wire::{AnyPath, WatchedLimits},
};

/// Before the first check, and the longest between two; each wait is twice the one before.
const FIRST_LOOK: Duration = Duration::from_millis(25);
const LONGEST_WAIT: Duration = Duration::from_millis(400);

/// Most processes looked at in one check.
const MAX_LOOKED_AT: usize = 4096;

/// Ticks per second in which the kernel reports processor time; the same on every machine we build
/// for.
const TICKS: u64 = 100;

/// Checks now and then until it finds a limit used up.
#[derive(Debug)]
pub(super) struct Observer<'a> {
    watched: &'a WatchedLimits,
    next: Instant,
    wait: Duration,
    found: bool,
}

impl<'a> Observer<'a> {
    /// Starts watching.
    pub(super) fn new(watched: &'a WatchedLimits) -> Self {
        Self {
            watched,
            next: Instant::now() + FIRST_LOOK,
            wait: FIRST_LOOK,
            found: false,
        }
    }

    /// How long until the next check; `None` once there is nothing more to find.
    pub(super) fn until_next(&self) -> Option<Duration> {
        let left = self.next.saturating_duration_since(Instant::now());
        (!self.found && self.watched.is_anything()).then_some(left)
    }

    /// Checks, if it is time to. `processes` are the ids of everything that runs.
    pub(super) fn look_if_due(&mut self, processes: impl FnOnce() -> Vec<i32>) -> Option<Limit> {
        if self.until_next() != Some(Duration::ZERO) {
            return None;
        }
        let found = self.used_up().or_else(|| self.held(&processes()));
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        self.next = Instant::now() + self.wait;
        self.note(found)
    }

    /// Checks for the last time; `status` is how the command ended.
    pub(super) fn look_at_end(&mut self, status: ExitStatus) -> Option<Limit> {
        let found = limits::exceeded_by(status).or_else(|| self.used_up());
        self.note(found)
    }

    /// Returns the first limit found and stops looking.
    fn note(&mut self, found: Option<Limit>) -> Option<Limit> {
        let first = found.filter(|_| !self.found);
        self.found |= first.is_some();
        first
    }

    /// Limits that do not depend on which processes run.
    fn used_up(&self) -> Option<Limit> {
        if self.watched.spaces.iter().any(is_full) {
            Some(Limit::Disk)
        } else if self
            .watched
            .cpu_time()
            .is_some_and(|most| used_cpu() >= most)
        {
            Some(Limit::Cpu)
        } else {
            None
        }
    }

    /// Limits on what running processes hold.
    fn held(&self, processes: &[i32]) -> Option<Limit> {
        let most = self.watched;
        let mut tasks = 0;
        for pid in processes.iter().take(MAX_LOOKED_AT) {
            tasks += most.processes.map_or(0, |_| threads(*pid));
            if most
                .open_files
                .is_some_and(|most| descriptors(*pid) >= most)
            {
                return Some(Limit::OpenFiles);
            }
        }
        let all = most.processes.is_some_and(|most| tasks >= most);
        all.then_some(Limit::Processes)
    }
}

/// Whether a file system has no room for data or, where it counts them, for files.
fn is_full(path: &AnyPath) -> bool {
    let full = |space: StatVfs| {
        (space.f_blocks > 0 && space.f_bavail == 0) || (space.f_files > 0 && space.f_favail == 0)
    };
    statvfs(path.as_ref()).is_ok_and(full)
}

/// The processor time of all descendants that have ended and been reaped.
fn used_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let of_children = after_name(&stat).skip(13).take(2);
    let ticks: u64 = of_children
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// How many threads a process has.
fn threads(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let threads = after_name(&stat).nth(17);
    threads.and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// How many files a process has open: the size of that directory, since Linux 6.2.
fn descriptors(pid: i32) -> u64 {
    let size = rustix::fs::stat(format!("/proc/{pid}/fd")).map_or(0, |stat| stat.st_size);
    u64::try_from(size).unwrap_or(0)
}

/// The fields of a process's `stat` after its name, which may contain anything.
fn after_name(stat: &str) -> impl Iterator<Item = &str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_once() {
        let watched = WatchedLimits {
            open_files: Some(1),
            ..WatchedLimits::default()
        };
        let mut observer = Observer::new(&watched);
        let this = || vec![std::process::id().try_into().expect("an id")];
        assert_eq!(observer.look_if_due(this), None, "not yet");
        observer.next = Instant::now();
        assert_eq!(observer.look_if_due(this), Some(Limit::OpenFiles));
        observer.next = Instant::now();
        assert_eq!(observer.look_if_due(this), None);
        assert_eq!(observer.until_next(), None);
        assert_eq!(
            observer.look_at_end(ExitStatus::Signal(libc::SIGXFSZ)),
            None
        );
    }

    #[test]
    fn this_process_is_seen_as_it_is() {
        let pid = std::process::id().try_into().expect("an id");
        let open = fs::read_dir("/proc/self/fd").expect("listed").count() as u64;
        // The listing itself had one open.
        assert_eq!(descriptors(pid), open - 1);
        assert!(threads(pid) >= 2, "the test and its main thread");
        assert_eq!(threads(0), 0);
    }

    #[test]
    fn nothing_to_watch_is_never_looked_at() {
        let watched = WatchedLimits::default();
        let observer = Observer::new(&watched);
        assert_eq!(observer.until_next(), None);
    }
}
