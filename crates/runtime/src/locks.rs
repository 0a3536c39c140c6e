//! Which calls may run concurrently: readers share, writers of the same file queue.
//!
//! Multi-granularity locking, as in databases. A call locks each path it names and, with an
//! *intent*, every directory above it, so that a search over a tree and a write somewhere inside it
//! meet at the tree's root. Locks are taken in path order, which makes deadlock impossible, and
//! each path's queue is first come, first served, which makes starvation impossible.
//!
//! Commands take no lock: what a command touches is not known beforehand, and a lock on the whole
//! workspace would let one `sleep` stop everything.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    Access, TenantId, WorkPath, WorkspaceId,
    access::{PathMode, PathScope},
};
use tokio::sync::oneshot;

use crate::workspace::Workspace;

/// The lock table of one engine.
#[derive(Debug, Default, Clone)]
pub(crate) struct Locks(Arc<Mutex<HashMap<Key, Node>>>);

/// Dropping it releases the locks.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    locks: Locks,
    keys: Vec<(Key, Mode)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key(LockArea, String);

/// A workspace with its owner: two tenants may use the same workspace id.
type LockArea = (Option<TenantId>, WorkspaceId);

/// How a path is locked. The order is used only for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Something beneath is read.
    IntentRead,
    /// Something beneath is written.
    IntentWrite,
    /// This, and everything beneath, is read.
    Read,
    /// This, and everything beneath, is written.
    Write,
}

impl Mode {
    const COUNT: usize = 4;

    fn index(self) -> usize {
        match self {
            Self::IntentRead => 0,
            Self::IntentWrite => 1,
            Self::Read => 2,
            Self::Write => 3,
        }
    }

    fn compatible(self, other: Self) -> bool {
        match (self, other) {
            (Self::Write, _)
            | (_, Self::Write)
            | (Self::Read, Self::IntentWrite)
            | (Self::IntentWrite, Self::Read) => false,
            (Self::IntentRead | Self::IntentWrite | Self::Read, _) => true,
        }
    }

    /// The weakest mode that covers both.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            // The last two: a tree that is read while the same call writes something in it.
            (Self::Write, _)
            | (_, Self::Write)
            | (Self::Read, Self::IntentWrite)
            | (Self::IntentWrite, Self::Read) => Self::Write,
            (Self::Read, _) | (_, Self::Read) => Self::Read,
            (Self::IntentWrite, _) | (_, Self::IntentWrite) => Self::IntentWrite,
            (Self::IntentRead, Self::IntentRead) => Self::IntentRead,
        }
    }
}

#[derive(Debug, Default)]
struct Node {
    granted: [usize; Mode::COUNT],
    waiting: VecDeque<(Mode, oneshot::Sender<()>)>,
}

impl Node {
    fn admits(&self, mode: Mode) -> bool {
        [Mode::IntentRead, Mode::IntentWrite, Mode::Read, Mode::Write]
            .into_iter()
            .all(|held| self.count(held) == 0 || mode.compatible(held))
    }

    fn count(&self, mode: Mode) -> usize {
        self.granted.get(mode.index()).copied().unwrap_or(0)
    }

    fn grant(&mut self, mode: Mode) {
        if let Some(count) = self.granted.get_mut(mode.index()) {
            *count += 1;
        }
    }

    fn release(&mut self, mode: Mode) {
        if let Some(count) = self.granted.get_mut(mode.index()) {
            *count = count.saturating_sub(1);
        }
    }

    /// Grants the lock to everyone at the head of the queue who fits.
    fn wake(&mut self) {
        while let Some((mode, _)) = self.waiting.front() {
            if !self.admits(*mode) {
                break;
            }
            let Some((mode, waiter)) = self.waiting.pop_front() else {
                break;
            };
            // A waiter that went away is skipped.
            if waiter.send(()).is_ok() {
                self.grant(mode);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.granted.iter().all(|count| *count == 0)
    }
}

impl Locks {
    /// Takes every lock a plan's accesses need, with no time limit. Dropping the future releases
    /// those it has.
    pub(crate) async fn acquire(&self, workspace: &Workspace, accesses: &[Access]) -> HeldLocks {
        let area = (workspace.owner().cloned(), workspace.id().clone());
        self.acquire_in(area, accesses).await
    }

    async fn acquire_in(&self, area: LockArea, accesses: &[Access]) -> HeldLocks {
        let mut held = HeldLocks {
            locks: self.clone(),
            keys: Vec::new(),
        };
        for (path, mode) in wanted(accesses) {
            let key = Key(area.clone(), path);
            if let Some(turn) = self.enqueue(&key, mode) {
                let mut waiter = Waiter {
                    locks: self,
                    key: &key,
                    mode,
                    turn,
                    served: false,
                };
                waiter.wait().await;
            }
            held.keys.push((key, mode));
        }
        held
    }

    /// Takes a lock at once, or joins its queue.
    fn enqueue(&self, key: &Key, mode: Mode) -> Option<oneshot::Receiver<()>> {
        let mut table = self.table();
        let node = table.entry(key.clone()).or_default();
        if node.waiting.is_empty() && node.admits(mode) {
            node.grant(mode);
            return None;
        }
        let (turn, waiter) = oneshot::channel();
        node.waiting.push_back((mode, turn));
        Some(waiter)
    }

    fn release(&self, key: &Key, mode: Mode) {
        let mut table = self.table();
        if let Some(node) = table.get_mut(key) {
            node.release(mode);
            node.wake();
            if node.is_idle() {
                table.remove(key);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.table().is_empty()
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        for (key, mode) in self.keys.drain(..).rev() {
            self.locks.release(&key, mode);
        }
    }
}

/// A position in a queue. If the wait is abandoned after the lock was granted but before that was
/// noticed, the lock is released; if before, the position is given up and those behind move up.
struct Waiter<'a> {
    locks: &'a Locks,
    key: &'a Key,
    mode: Mode,
    turn: oneshot::Receiver<()>,
    served: bool,
}

impl Waiter<'_> {
    async fn wait(&mut self) {
        // The sender is dropped only with the whole table.
        let _ = (&mut self.turn).await;
        self.served = true;
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        self.turn.close();
        if self.turn.try_recv().is_ok() {
            self.locks.release(self.key, self.mode);
            return;
        }
        let mut table = self.locks.table();
        if let Some(node) = table.get_mut(self.key) {
            node.waiting.retain(|(_, waiter)| !waiter.is_closed());
            node.wake();
            if node.is_idle() {
                table.remove(self.key);
            }
        }
    }
}

/// The locks a plan needs, in the order they are taken.
fn wanted(accesses: &[Access]) -> BTreeMap<String, Mode> {
    let mut wanted: BTreeMap<String, Mode> = BTreeMap::new();
    let mut want = |path: &WorkPath, mode: Mode| {
        wanted
            .entry(path.as_str().to_owned())
            .and_modify(|have| *have = have.join(mode))
            .or_insert(mode);
    };
    for access in accesses {
        let Access::Path(access) = access else {
            continue;
        };
        let (own, above) = match (access.mode, access.scope) {
            (PathMode::Read, PathScope::File | PathScope::Tree) => (Mode::Read, Mode::IntentRead),
            (PathMode::Write, PathScope::File | PathScope::Tree) => {
                (Mode::Write, Mode::IntentWrite)
            }
        };
        want(access.target(), own);
        let mut parent = access.target().parent();
        while let Some(directory) = parent {
            want(&directory, above);
            parent = directory.parent();
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn path(text: &str) -> WorkPath {
        WorkPath::relative(text).unwrap()
    }

    fn check(first: Access, second: Access, side_by_side: bool) {
        let locks = Locks::default();
        let area = || (None, WorkspaceId::local());
        let held = locks
            .acquire_in(area(), std::slice::from_ref(&first))
            .now_or_never()
            .unwrap();
        let got = locks
            .acquire_in(area(), std::slice::from_ref(&second))
            .now_or_never();
        assert_eq!(got.is_some(), side_by_side, "{first:?} beside {second:?}");
        drop((held, got));
        assert!(locks.is_empty(), "nothing is left behind");
    }

    #[test]
    fn readers_share_and_writers_of_the_same_file_queue() {
        check(Access::read(path("a")), Access::read(path("a")), true);
        check(Access::read(path("a")), Access::write(path("a")), false);
        check(Access::write(path("a")), Access::write(path("a")), false);
        check(Access::write(path("d/a")), Access::write(path("d/b")), true);
    }

    #[test]
    fn a_tree_meets_what_is_inside_it() {
        check(
            Access::read_tree(path("d")),
            Access::write(path("d/x/y")),
            false,
        );
        check(
            Access::read_tree(path("d")),
            Access::write(path("e/x")),
            true,
        );
        check(
            Access::read_tree(path("d")),
            Access::read(path("d/x")),
            true,
        );
        check(
            Access::read_tree(WorkPath::root()),
            Access::write(path("e")),
            false,
        );
    }

    #[tokio::test]
    async fn an_abandoned_wait_gives_up_its_place() {
        let locks = Locks::default();
        let area = || (None, WorkspaceId::local());
        let write = [Access::write(path("a"))];
        let held = locks.acquire_in(area(), &write).await;
        let mut abandoned = Box::pin(locks.acquire_in(area(), &write));
        assert!((&mut abandoned).now_or_never().is_none());
        let mut patient = Box::pin(locks.acquire_in(area(), &write));
        assert!((&mut patient).now_or_never().is_none());
        drop(abandoned);
        drop(held);
        drop(patient.await);
        assert!(locks.is_empty());
    }
}
