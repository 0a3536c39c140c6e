//! Identifies the Haft process that made something, in a form that fits a file name, and tells
//! whether that process still lives. Used to find what a crashed Haft left (`orphans.rs`,
//! `cgroup/`).
//!
//! Process ids are reused, so the start time is included; and ids mean something only inside one
//! pid namespace, so that is included too. Nothing from another namespace is judged.

use std::{fmt, fs, io, process};

/// A process, unambiguous until the machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    namespace: u64,
    pid: u32,
    start: u64,
}

/// Whether an owner still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It runs.
    Alive,
    /// It has ended.
    Gone,
    /// It belongs to another pid namespace, so it cannot be checked from here.
    Unknown,
}

impl Owner {
    /// This process.
    pub(crate) fn this_process() -> io::Result<Self> {
        let pid = process::id();
        Ok(Self {
            namespace: own_namespace()?,
            pid,
            start: start_time(pid)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?,
        })
    }

    /// Parses a name written by `Display`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-').map(number);
        let owner = Self {
            namespace: parts.next()??,
            pid: parts.next()??.try_into().ok()?,
            start: parts.next()??,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Whether it still lives.
    pub(crate) fn liveness(self) -> Liveness {
        match own_namespace() {
            Ok(namespace) if namespace == self.namespace => {}
            Ok(_) | Err(_) => return Liveness::Unknown,
        }
        match start_time(self.pid) {
            Ok(Some(start)) if start == self.start => Liveness::Alive,
            Ok(_) => Liveness::Gone,
            Err(_) => Liveness::Unknown,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.namespace, self.pid, self.start)
    }
}

/// Digits only: `+1` parses in Rust and would be a second name for the same owner.
fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(())?;
    text.parse().ok()
}

fn own_namespace() -> io::Result<u64> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    link.to_str()
        .and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']'))
        .and_then(number)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// When a process started, in ticks since boot; `None` if there is no such process.
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // It ended between opening and reading.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(start_in(&stat))
}

/// The 22nd field. The second field, the program's name, may contain anything, so fields are
/// counted from the last parenthesis.
fn start_in(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_name_is_read_back() {
        let owner = Owner::this_process().expect("an owner");
        assert_eq!(owner.liveness(), Liveness::Alive);
        assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
    }

    #[test]
    fn a_process_id_that_came_round_again_is_another_owner() {
        let owner = Owner::this_process().expect("an owner");
        let earlier = Owner {
            start: owner.start - 1,
            ..owner
        };
        assert_eq!(earlier.liveness(), Liveness::Gone);
    }

    #[test]
    fn nobody_judges_another_namespace() {
        let owner = Owner::this_process().expect("an owner");
        let elsewhere = Owner {
            namespace: owner.namespace + 1,
            start: 0,
            ..owner
        };
        assert_eq!(elsewhere.liveness(), Liveness::Unknown);
    }

    #[test]
    fn other_names_are_no_owners() {
        for name in [
            "",
            "1",
            "1-2",
            "1-2-3-4",
            "1-2-x",
            "a-2-3",
            "1-+2-3",
            "1--3",
            "1-4294967296-3",
        ] {
            assert_eq!(Owner::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_program_name_cannot_move_the_start_time() {
        let stat = "7 (x) 1 1) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(start_in(stat), Some(4711));
    }
}
