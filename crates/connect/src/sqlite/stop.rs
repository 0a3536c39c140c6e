//! Telling SQLite's thread to stop, and learning whether it may be committing meanwhile.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rusqlite::InterruptHandle;
use tokio::sync::oneshot;

/// Seen by both sides. A change is never committed once it was told to stop, unless it was committing
/// at that moment: each side writes its own flag before it reads the other's.
#[derive(Debug, Clone, Default)]
pub(super) struct StopSign(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    committing: AtomicBool,
}

impl StopSign {
    /// Whether the thread must stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    /// Called by the thread before it commits: whether it still may.
    pub(super) fn may_commit(&self) -> bool {
        self.0.committing.store(true, Ordering::SeqCst);
        let may = !self.is_set();
        if !may {
            self.does_not_commit();
        }
        may
    }

    /// Called by the thread when it could not commit.
    pub(super) fn does_not_commit(&self) {
        self.0.committing.store(false, Ordering::SeqCst);
    }

    /// Whether a thread that was told to stop may commit all the same.
    pub(super) fn is_committing(&self) -> bool {
        self.0.committing.load(Ordering::SeqCst)
    }

    fn set(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

/// Tells the thread to stop when it is dropped: a thread cannot be dropped.
pub(super) struct Stopping {
    sign: StopSign,
    arriving: Option<oneshot::Receiver<InterruptHandle>>,
}

impl Stopping {
    pub(super) fn new(sign: StopSign, arriving: oneshot::Receiver<InterruptHandle>) -> Self {
        Self {
            sign,
            arriving: Some(arriving),
        }
    }

    /// The thread has ended by itself.
    pub(super) fn disarm(&mut self) {
        self.arriving = None;
    }

    /// Sets the sign, which stays set, and interrupts SQLite, which forgets it where nothing runs yet.
    pub(super) fn stop(&mut self) {
        if let Some(mut arriving) = self.arriving.take() {
            self.sign.set();
            if let Ok(handle) = arriving.try_recv() {
                handle.interrupt();
            }
        }
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.stop();
    }
}
