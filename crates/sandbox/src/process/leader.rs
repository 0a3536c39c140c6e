//! The child itself: how it ended, and reaping it.
//!
//! It is reaped only after its group was killed, so that its id cannot be reused in between.
//! Dropping it ends the whole tree.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use haft_contract::{
    ErrorKind,
    ops::{ExitStatus, OpsError},
};
use rustix::{
    io::Errno,
    process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    child_leader::{ChildLeader, Confinement, TreeEnd},
    controls::ChildControl,
    tree::ChildTree,
    watch::watch,
};
use crate::{errno, pool::blocking, spawn::StartedChild};

/// A child that has been started and not yet reaped.
pub(super) struct Leader {
    tree: ChildTree,
    started: Instant,
    /// `None` once it is reaped.
    process: Option<StartedChild>,
    /// Becomes readable when the child ends.
    ended: AsyncFd<OwnedFd>,
    reach: Arc<LocalReach>,
}

/// Reaches the child from elsewhere, as long as its id still refers to it.
pub(super) struct LocalReach(Mutex<Option<ChildTree>>);

impl LocalReach {
    /// Called before the child is reaped; from then on there is nobody to reach.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ChildControl for LocalReach {
    fn signal(&self, signal: Signal) -> Result<(), OpsError> {
        // Locked while signalling, so that the child cannot be reaped in between.
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

impl Leader {
    /// Takes over a child that was just started. Must run on a runtime thread, for its poller.
    pub(super) fn new(started: StartedChild, mark: &str) -> Result<Self, OpsError> {
        let tree = ChildTree::new(started.pid, mark);
        let watched = started.pidfd.try_clone();
        let Ok(ended) = watched.and_then(|pidfd| watch(pidfd, Interest::READABLE)) else {
            end_unwatched(tree, started);
            return Err(errno::error(Errno::MFILE));
        };
        Ok(Self {
            reach: Arc::new(LocalReach(Mutex::new(Some(tree.clone())))),
            tree,
            started: Instant::now(),
            process: Some(started),
            ended,
        })
    }

    /// How the child ended; `None` while it runs. It stays unreaped.
    fn status(&self) -> Option<ExitStatus> {
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let process = self.process.as_ref()?;
        waitid(WaitId::PidFd(process.pidfd.as_fd()), flags)
            .ok()
            .flatten()
            .and_then(|status| exit_status(&status))
    }

    /// Runs blocking work on the tree; does nothing once the child is reaped and its id may be
    /// reused.
    async fn on_tree<T: Default + Send + 'static>(
        &self,
        work: impl FnOnce(&ChildTree) -> Result<T, OpsError> + Send + 'static,
    ) -> Result<Option<T>, OpsError> {
        if self.process.is_none() {
            return Ok(None);
        }
        let tree = self.tree.clone();
        blocking(move || work(&tree)).await.map(Some)
    }
}

impl ChildLeader for Leader {
    type Control = LocalReach;

    fn reach(&self) -> Arc<LocalReach> {
        Arc::clone(&self.reach)
    }

    async fn ended(&mut self) -> Result<ExitStatus, OpsError> {
        // Readable means ended, and it stays readable.
        drop(self.ended.readable().await.map_err(|_| lost_track())?);
        self.status().ok_or_else(lost_track)
    }

    async fn terminate(&self) -> Result<(), OpsError> {
        self.on_tree(|tree| {
            tree.signal_all(Signal::TERM);
            // A stopped process handles SIGTERM only once it continues.
            tree.signal_all(Signal::CONT);
            Ok(())
        })
        .await
        .map(drop)
    }

    async fn is_gone(&self) -> Result<bool, OpsError> {
        let gone = self.on_tree(|tree| Ok(tree.is_gone())).await?;
        Ok(gone.unwrap_or(true))
    }

    async fn kill(&self) -> Result<(), OpsError> {
        self.on_tree(ChildTree::kill).await.map(drop)
    }

    fn is_finished(&self) -> bool {
        self.process.is_none()
    }

    fn finish_if_alone(&mut self) -> TreeEnd {
        let Some(process) = &self.process else {
            return TreeEnd::Over;
        };
        self.reach.forget();
        self.tree.signal_group(Signal::KILL);
        if !self.tree.is_surely_gone(self.started.elapsed()) {
            return TreeEnd::MayHaveLeftSome;
        }
        process.reap();
        self.process = None;
        TreeEnd::Over
    }

    fn finish(&mut self) {
        self.reach.forget();
        if let Some(process) = self.process.take() {
            self.tree.signal_group(Signal::KILL);
            process.reap();
        }
    }

    async fn confinement(&mut self) -> Confinement {
        Confinement::default()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.reach.forget();
        if let Some(process) = self.process.take() {
            end_unwatched(self.tree.clone(), process);
        }
    }
}

/// Ends a tree that nobody watches any more. The group dies at once. Finding those that left it
/// takes a scan of the whole machine, so that and the reaping happen in the background.
fn end_unwatched(tree: ChildTree, process: StartedChild) {
    tree.signal_group(Signal::KILL);
    let work = move || {
        if let Err(error) = tree.kill() {
            tracing::warn!(%error, "a process outlived its call");
        }
        process.reap();
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => drop(std::thread::spawn(work)),
    }
}

fn exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    status
        .exit_status()
        .map(ExitStatus::Code)
        .or_else(|| status.terminating_signal().map(ExitStatus::Signal))
}

fn lost_track() -> OpsError {
    OpsError::new(
        ErrorKind::Internal,
        "the child ended and its exit status is lost",
    )
}
