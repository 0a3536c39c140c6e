//! How many bytes may wait to be written, and who gets space next.

use std::{
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Semaphore, SemaphorePermit};

/// The space of a queue. Opening a call waits for it; messages of an open call do not.
#[derive(Debug)]
pub(crate) struct Space {
    free: Semaphore,
    max_bytes: u32,
    /// Bytes accepted although there was no space left. They are repaid before anybody gets space.
    owed: Mutex<usize>,
    /// Counts transactions, to see whether the store makes progress.
    written: AtomicU64,
}

/// Why there is no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSpace {
    /// The queue is closed.
    Closed,
    /// The store wrote nothing for the whole waiting time.
    NothingWritten,
}

impl Space {
    pub(crate) fn new(max_bytes: usize) -> Self {
        // With zero permits every weight would be zero, so there would be no bound.
        let max_bytes = max_bytes.clamp(1, Semaphore::MAX_PERMITS);
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        Self {
            free: Semaphore::new(max_bytes as usize),
            max_bytes,
            owed: Mutex::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// How much space this weight takes. Anything larger than the total takes all of it.
    pub(crate) fn share_of(&self, weight: usize) -> u32 {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        weight.min(self.max_bytes)
    }

    /// Space available right now, if it is the caller's turn.
    pub(crate) fn now(&self, bytes: u32) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire_many(bytes).ok()
    }

    /// Waits for space, in turn. Gives up when the store has written nothing for the given time: a
    /// slow store slows its callers down, but refuses none.
    pub(crate) async fn in_turn(
        &self,
        bytes: u32,
        without_progress: Duration,
    ) -> Result<SemaphorePermit<'_>, NoSpace> {
        let mut space = pin!(self.free.acquire_many(bytes));
        loop {
            let before = self.written.load(Ordering::Relaxed);
            match tokio::time::timeout(without_progress, &mut space).await {
                Ok(space) => return space.map_err(|_| NoSpace::Closed),
                Err(_) if self.written.load(Ordering::Relaxed) == before => {
                    return Err(NoSpace::NothingWritten);
                }
                Err(_) => {}
            }
        }
    }

    /// Takes space for a message of an open call, even if there is none.
    pub(crate) fn charge(&self, bytes: usize) {
        let mut owed = self.owed();
        *owed += bytes - self.free.forget_permits(bytes);
    }

    /// After a transaction: returns the space of what was written.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.written.fetch_add(1, Ordering::Relaxed);
        let mut owed = self.owed();
        let made_up = bytes.min(*owed);
        *owed -= made_up;
        self.free.add_permits(bytes - made_up);
    }

    /// Whether no space is left.
    pub(crate) fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Refuses all further requests for space.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    /// Whether all space is free.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        *self.owed() == 0 && self.free.available_permits() == self.max_bytes as usize
    }

    fn owed(&self) -> MutexGuard<'_, usize> {
        // Nothing panics while the lock is held, and a number is always consistent.
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
