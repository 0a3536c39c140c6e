//! Finds children on the host that outlived the Haft that started them, by the mark they carry, and
//! kills them.
//!
//! A child in a sandbox dies with Haft, because its init sees Haft end. For a plain child only the
//! warden (`warden.rs`) sees that; if there was none, the next Haft of the same user cleans up when
//! it starts. A process that left its session *and* cleared its environment is not found; only a
//! sandbox can guarantee that.

use std::{
    collections::{HashMap, HashSet},
    sync::Once,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::tree::{self, Process};
use crate::owner::{Liveness, Owner};

/// How long killing them may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Whose children are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanOwner {
    /// Those of every Haft of this user that has ended.
    TheDead,
    /// Those of this Haft.
    Of(Owner),
}

/// Kills what dead Hafts left, once per process and in the background.
pub(crate) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        let swept = std::thread::Builder::new()
            .name("haft-sweep".to_owned())
            .spawn(|| end(OrphanOwner::TheDead));
        if let Err(error) = swept {
            tracing::warn!(%error, "orphans of an earlier run were not looked for");
        }
    });
}

/// Kills them repeatedly until none is left: one may fork while the others are being killed.
pub(crate) fn end(whose: OrphanOwner) {
    let until = Instant::now() + LIMIT;
    loop {
        let found = find(whose);
        if found.is_empty() {
            return;
        }
        for orphan in &found {
            orphan.signal(Signal::KILL);
        }
        if Instant::now() > until {
            tracing::warn!(
                left = found.len(),
                "orphans do not end when they are killed"
            );
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// The processes that carry the mark, all in their sessions, and all their descendants.
fn find(whose: OrphanOwner) -> Vec<Process> {
    let all = tree::processes();
    let us = ourselves(&all);
    let mut known = HashMap::new();
    let mut is_theirs = |owner: Owner| match whose {
        OrphanOwner::Of(one) => owner == one,
        OrphanOwner::TheDead => *known
            .entry(owner)
            .or_insert_with(|| owner.liveness() == Liveness::Gone),
    };
    let marked: Vec<&Process> = all
        .iter()
        .filter(|process| !us.contains(&process.pid))
        .filter(|process| {
            tree::mark_of(process.pid)
                .is_some_and(|mark| owner_in(&mark).is_some_and(&mut is_theirs))
        })
        .collect();
    if marked.is_empty() {
        return Vec::new();
    }
    // Every session a marked process is in was made for it, or by a process like it.
    let sessions: HashSet<i32> = marked.iter().map(|process| process.session).collect();
    let mut found: HashSet<i32> = all
        .iter()
        .filter(|process| sessions.contains(&process.session))
        .map(|process| process.pid)
        .collect();
    loop {
        let before = found.len();
        let children = all.iter().filter(|process| found.contains(&process.parent));
        let children: Vec<i32> = children.map(|process| process.pid).collect();
        found.extend(children);
        if found.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|process| found.contains(&process.pid) && !us.contains(&process.pid))
        .filter(|process| !process.is_dead())
        .collect()
}

/// This process and its ancestors, which are no orphans while it runs.
fn ourselves(all: &[Process]) -> HashSet<i32> {
    let parents: HashMap<i32, i32> = all
        .iter()
        .map(|process| (process.pid, process.parent))
        .collect();
    let mut us = HashSet::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(pid) = next.filter(|pid| us.insert(*pid)) {
        next = parents.get(&pid).copied();
    }
    us
}

/// The mark of a tree that this process starts.
pub(super) fn mark(owner: Owner, random: &str) -> String {
    format!("{owner}-{random}")
}

fn owner_in(mark: &str) -> Option<Owner> {
    let (owner, _) = mark.rsplit_once('-')?;
    Owner::parse(owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::environment::TREE_MARK;

    #[test]
    fn the_owner_is_read_from_a_mark() {
        let owner = Owner::this_process().expect("an owner");
        assert_eq!(owner_in(&mark(owner, "0af3")), Some(owner));
        for mark in ["", "0af3", "1-2-0af3", "x-2-3-0af3"] {
            assert_eq!(owner_in(mark), None, "{mark}");
        }
    }

    /// Starts a long sleep that carries a mark. It gets its own session before the mark: everything
    /// in a marked process's session is killed with it.
    fn sleep_of(owner: &str) -> std::process::Child {
        std::process::Command::new("setsid")
            .args(["env", &format!("{TREE_MARK}={owner}-0af3"), "sleep", "1000"])
            .spawn()
            .expect("setsid")
    }

    #[test]
    fn what_a_haft_that_is_gone_left_is_ended_and_what_a_living_one_runs_is_not() {
        let living = Owner::this_process().expect("an owner").to_string();
        // The same id, given to a process that started at another time.
        let (process, began) = living.rsplit_once('-').expect("a start");
        let began: u64 = began.parse().expect("a number");
        let gone = format!("{process}-{}", began + 1);
        let (mut orphan, mut child) = (sleep_of(&gone), sleep_of(&living));
        let carries_mark = |child: &std::process::Child| {
            let pid = i32::try_from(child.id()).expect("an id");
            tree::mark_of(pid).is_some()
        };
        let until = Instant::now() + haft_testkit::PATIENCE;
        while !carries_mark(&orphan) || !carries_mark(&child) {
            assert!(Instant::now() < until, "the sleeps never started");
            std::thread::sleep(LOOK_AGAIN);
        }
        end(OrphanOwner::TheDead);
        // A killed process ends; a sleep of a thousand seconds would not.
        let status = orphan.wait().expect("its end");
        assert!(!status.success());
        assert!(child.try_wait().expect("a look").is_none(), "still runs");
        child.kill().expect("ended");
        child.wait().expect("its end");
    }
}
