//! How many bytes may wait to be written, and who gets the next of them.

use std::{
    pin::pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Semaphore, SemaphorePermit};

/// The space of a queue. Whoever opens a call waits for it; what belongs to an open call does not.
#[derive(Debug)]
pub(crate) struct Space {
    free: Semaphore,
    max_bytes: u32,
    /// Bytes that were taken in although there was no space left. They are made up for before
    /// anybody gets space.
    owed: Mutex<usize>,
    /// Counts transactions: whether the store is at work.
    written: AtomicU64,
}

/// Why there is no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSpace {
    /// The queue is closed.
    Closed,
    /// The store wrote nothing for as long as one waits.
    NothingWritten,
}

impl Space {
    /// Space for so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        // Without any space there would be no bound at all.
        let max_bytes = max_bytes.clamp(1, Semaphore::MAX_PERMITS);
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        Self {
            free: Semaphore::new(max_bytes as usize),
            max_bytes,
            owed: Mutex::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// What something of this weight takes. What is larger than all the space there is takes all of
    /// it.
    pub(crate) fn share_of(&self, weight: usize) -> u32 {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        weight.min(self.max_bytes)
    }

    /// Space that is there, for whoever is first in turn.
    pub(crate) fn now(&self, bytes: u32) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire_many(bytes).ok()
    }

    /// Waits for space, in turn. There is an end to it when the store has written nothing for the
    /// given time: one that is slow slows its callers down, and refuses none.
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

    /// Takes space for what belongs to an open call, whether there is any or not.
    pub(crate) fn charge(&self, bytes: usize) {
        let mut owed = self.owed();
        *owed += bytes - self.free.forget_permits(bytes);
    }

    /// After a transaction: the space of what was written.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.written.fetch_add(1, Ordering::Relaxed);
        let mut owed = self.owed();
        let made_up = bytes.min(*owed);
        *owed -= made_up;
        self.free.add_permits(bytes - made_up);
    }

    /// Whether nothing is left.
    pub(crate) fn is_full(&self) -> bool {
        self.free.available_permits() == 0
    }

    /// Nobody gets any more.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    /// Whether all of it is there.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        *self.owed() == 0 && self.free.available_permits() == self.max_bytes as usize
    }

    fn owed(&self) -> MutexGuard<'_, usize> {
        // Nothing panics while it is held, and a number is always whole.
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
