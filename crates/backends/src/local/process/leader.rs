//! The child itself: how it ended, and taking it off the process table.
//!
//! It is reaped only after its group was killed, so that its id cannot come to mean another process
//! in between. Whoever drops it ends the whole tree.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use haft_contract::ops::{ExitStatus, OpsError};
use rustix::{
    io::Errno,
    process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid},
};

use super::{controls::Reach, spawn::Started, tree::Tree};

/// A child that has been started and is not yet reaped.
pub(super) struct Leader {
    tree: Tree,
    started: Instant,
    /// Absent once it is reaped.
    pidfd: Option<OwnedFd>,
}

/// Reaches the child from elsewhere, for as long as its id means it.
pub(super) struct LocalReach(Mutex<Option<Tree>>);

impl LocalReach {
    /// The child is about to be reaped; from now on there is nobody to reach.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Reach for LocalReach {
    fn signal(&self, signal: Signal) -> Result<(), OpsError> {
        // Held while signalling, so that the child cannot be reaped in between.
        if let Some(tree) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            tree.signal_group(signal);
        }
        Ok(())
    }

    fn members(&self) -> Vec<i32> {
        let tree = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        tree.map(|tree| tree.ids()).unwrap_or_default()
    }
}

/// Whether a child left anything behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing; it is reaped.
    Over,
    /// Perhaps; it is not reaped yet.
    MayHaveLeftSome,
}

impl Leader {
    pub(super) fn new(started: Started, mark: &str) -> Self {
        Self {
            tree: Tree::new(started.pid, mark),
            started: Instant::now(),
            pidfd: Some(started.pidfd),
        }
    }

    /// The tree, while the child is not reaped and its id means it.
    pub(super) fn tree(&self) -> Option<&Tree> {
        self.pidfd.as_ref().map(|_| &self.tree)
    }

    /// A way to the child for those who do not hold it. It must be told to forget the child before
    /// that is reaped.
    pub(super) fn reach(&self) -> Arc<LocalReach> {
        Arc::new(LocalReach(Mutex::new(self.tree().cloned())))
    }

    /// A descriptor that becomes readable when the child ends.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// How the child ended; `None` while it runs. It stays unreaped.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(self.pidfd()?), flags)
            .ok()
            .flatten()
            .and_then(|status| exit_status(&status))
    }

    /// Kills what is left of the group and reaps the child, which has ended, if nothing else of its
    /// tree is left. Otherwise the tree must be killed first.
    pub(super) fn finish_if_alone(&mut self) -> Ending {
        let Some(pidfd) = &self.pidfd else {
            return Ending::Over;
        };
        self.tree.signal_group(Signal::KILL);
        if !self.tree.is_surely_gone(self.started.elapsed()) {
            return Ending::MayHaveLeftSome;
        }
        reap(pidfd);
        self.pidfd = None;
        Ending::Over
    }

    /// Kills what is left of the group and reaps the child, which has ended.
    pub(super) fn finish(&mut self) {
        if let Some(pidfd) = self.pidfd.take() {
            self.tree.signal_group(Signal::KILL);
            reap(&pidfd);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let Some(pidfd) = self.pidfd.take() else {
            return;
        };
        // The group dies at once. Those that left it, and the reaping, take a look at the whole
        // machine and happen behind the caller's back.
        self.tree.signal_group(Signal::KILL);
        let tree = self.tree.clone();
        let work = move || {
            if let Err(error) = tree.kill() {
                tracing::warn!(%error, "a process outlived its call");
            }
            reap(&pidfd);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => drop(std::thread::spawn(work)),
        }
    }
}

/// Takes the child off the process table. It has ended, or has been killed and is about to.
fn reap(pidfd: &OwnedFd) {
    while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {}
}

fn exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    status
        .exit_status()
        .map(ExitStatus::Code)
        .or_else(|| status.terminating_signal().map(ExitStatus::Signal))
}
