//! Everything a child started, and killing it.
//!
//! A process belongs to the tree if it is in the child's session, descends from one that does, or
//! carries the tree's mark in its environment. That finds children that left the session or were
//! reparented to init. It cannot find a process that did both *and* cleared its environment; only
//! the sandbox tiers (pid namespace, cgroup) can guarantee that.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use haft_contract::{ErrorKind, ops::OpsError};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal},
};

use super::environment::TREE_MARK;

/// How long a tree may take to vanish after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// Between two checks of a tree that is dying.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Ids are reused, but not within this time.
const BRIEF: Duration = Duration::from_millis(500);

/// If more ids were assigned since, scanning every process is cheaper.
const MAX_SINCE: i32 = 256;

/// The most bytes read of a process's environment.
const MAX_ENVIRON_BYTES: usize = 256 * 1024;

/// A child and all it started. The child must not be reaped while this is in use, so that its id
/// cannot be reused.
#[derive(Debug, Clone)]
pub(super) struct ChildTree {
    leader: Pid,
    mark: String,
}

impl ChildTree {
    pub(super) fn new(leader: Pid, mark: &str) -> Self {
        Self {
            leader,
            mark: mark.to_owned(),
        }
    }

    /// Signals the child's group.
    pub(super) fn signal_group(&self, signal: Signal) {
        // Nothing left to signal is what was wanted.
        let _ = kill_process_group(self.leader, signal);
    }

    /// The ids of the processes of the tree that still run.
    pub(super) fn ids(&self) -> Vec<i32> {
        self.members().iter().map(|process| process.pid).collect()
    }

    /// Whether no process of the tree runs any more.
    pub(super) fn is_gone(&self) -> bool {
        self.members().is_empty()
    }

    /// Signals every process of the tree, including those that left the session.
    pub(super) fn signal_all(&self, signal: Signal) {
        self.signal_group(signal);
        for member in self.members() {
            member.signal(signal);
        }
    }

    /// Kills everything repeatedly until nothing is left: a process may fork while the others are
    /// being killed.
    pub(super) fn kill(&self) -> Result<(), OpsError> {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            self.signal_group(Signal::KILL);
            let members = self.members();
            if members.is_empty() {
                return Ok(());
            }
            for member in &members {
                member.signal(Signal::KILL);
            }
            if Instant::now() > deadline {
                return Err(OpsError::new(
                    ErrorKind::Unavailable,
                    format!(
                        "{} processes did not end within {} s of being killed",
                        members.len(),
                        KILL_LIMIT.as_secs()
                    ),
                ));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Whether nothing is left after a child that ran for this long has ended. Looks only at ids
    /// assigned since the child got its own, if those are known; `false` means that a full scan is
    /// needed.
    pub(super) fn is_surely_gone(&self, ran: Duration) -> bool {
        if ran > BRIEF {
            return false;
        }
        let leader = self.leader.as_raw_nonzero().get();
        let Some(last) = last_id().filter(|last| (leader..leader + MAX_SINCE).contains(last))
        else {
            return false;
        };
        // The child itself is a zombie and the only process to skip: whatever it started has a
        // later id.
        let since = (leader + 1..=last).filter_map(read).collect();
        self.members_of(since).is_empty()
    }

    /// The processes of the tree that still run.
    fn members(&self) -> Vec<Process> {
        self.members_of(processes())
    }

    /// The processes among these that belong to the tree and still run.
    fn members_of(&self, all: Vec<Process>) -> Vec<Process> {
        let leader = self.leader.as_raw_nonzero().get();
        // The child is not reaped yet, so a full list contains it, at least as a zombie.
        let started = all
            .iter()
            .find(|process| process.pid == leader)
            .map_or(0, |process| process.start);
        let mut found: HashSet<i32> = all
            .iter()
            .filter(|process| {
                process.pid == leader
                    || process.session == leader
                    || (process.start >= started && self.marks(process.pid))
            })
            .map(|process| process.pid)
            .collect();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for process in &all {
            children
                .entry(process.parent)
                .or_default()
                .push(process.pid);
        }
        let mut waiting: Vec<i32> = found.iter().copied().collect();
        while let Some(pid) = waiting.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                if found.insert(*child) {
                    waiting.push(*child);
                }
            }
        }
        all.into_iter()
            .filter(|process| found.contains(&process.pid) && !process.is_dead())
            .collect()
    }

    fn marks(&self, pid: i32) -> bool {
        mark_of(pid).is_some_and(|mark| mark == self.mark)
    }
}

/// The mark of the tree a process belongs to, if it carries one.
pub(super) fn mark_of(pid: i32) -> Option<String> {
    use std::io::Read as _;
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    let mut environment = Vec::new();
    let limit = MAX_ENVIRON_BYTES as u64;
    file.take(limit).read_to_end(&mut environment).ok()?;
    let variables = environment.split(|byte| *byte == 0);
    let mut marks = variables.filter_map(|variable| {
        let (name, mark) = variable.split_at_checked(TREE_MARK.len())?;
        let mark = mark.strip_prefix(b"=")?;
        let mark = std::str::from_utf8(mark).ok()?;
        (name == TREE_MARK.as_bytes()).then(|| mark.to_owned())
    });
    marks.next()
}

/// One process, as seen at one moment.
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) session: i32,
    start: u64,
    state: u8,
}

impl Process {
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Signals this process and no other that got its id since.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(held) => {
                let same = read(self.pid).is_some_and(|now| now.start == self.start);
                if same {
                    let _ = pidfd_send_signal(&held, signal);
                }
            }
            Err(Errno::SRCH) => {}
            Err(errno) => tracing::warn!(%errno, pid = self.pid, "a process cannot be signalled"),
        }
    }
}

/// Every process on the machine.
pub(super) fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// The id that was assigned last.
fn last_id() -> Option<i32> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().next_back()?.parse().ok()
}

fn read(pid: i32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything, including parentheses and spaces.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Process {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}
