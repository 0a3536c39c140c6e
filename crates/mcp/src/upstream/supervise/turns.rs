//! Whose turn it is: a limited number of requests run, a limited number wait, and the rest are
//! refused.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::upstream::connection::RequestError;

pub(super) struct RequestTurns {
    free: Arc<Semaphore>,
    at_a_time: usize,
    waiting: AtomicUsize,
    may_wait: usize,
}

impl RequestTurns {
    pub(super) fn new(at_a_time: usize, may_wait: usize) -> Self {
        let at_a_time = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(at_a_time)),
            at_a_time,
            waiting: AtomicUsize::new(0),
            may_wait,
        }
    }

    /// Waits for a turn, which lasts until the returned value is dropped.
    pub(super) async fn take(
        &self,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, RequestError> {
        if let Ok(turn) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(turn);
        }
        let _waiting = self.wait()?;
        tokio::select! {
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            turn = tokio::time::timeout(within, Arc::clone(&self.free).acquire_owned()) => match turn {
                Ok(Ok(turn)) => Ok(turn),
                Ok(Err(_)) => Err(RequestError::NotSent("the server is being ended".to_owned())),
                Err(_) => Err(RequestError::NotSent(format!(
                    "it had no turn within {} ms",
                    within.as_millis()
                ))),
            },
        }
    }

    /// How many requests are in flight.
    pub(super) fn under_way(&self) -> usize {
        self.at_a_time.saturating_sub(self.free.available_permits())
    }

    fn wait(&self) -> Result<QueuePlace<'_>, RequestError> {
        let may_wait = |waiting: usize| (waiting < self.may_wait).then_some(waiting + 1);
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, may_wait)
            .map(|_| QueuePlace(self))
            .map_err(|_| RequestError::Busy(self.at_a_time.saturating_add(self.may_wait)))
    }
}

/// A place in the queue, left when dropped.
struct QueuePlace<'t>(&'t RequestTurns);

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_beyond_the_queue_are_refused_and_a_place_is_free_again_after_a_cancel() {
        let turns = Arc::new(RequestTurns::new(1, 1));
        let cancel = CancellationToken::new();
        let long = Duration::from_mins(1);
        let first = turns.take(long, &cancel).await.unwrap();
        assert_eq!(turns.under_way(), 1);
        let second = {
            let (turns, cancel) = (Arc::clone(&turns), cancel.clone());
            tokio::spawn(async move { turns.take(long, &cancel).await.map(drop) })
        };
        tokio::task::yield_now().await;
        let third = turns.take(long, &CancellationToken::new()).await;
        assert_eq!(third.map(drop), Err(RequestError::Busy(2)));
        cancel.cancel();
        assert_eq!(second.await.unwrap(), Err(RequestError::Cancelled));
        let cancel = CancellationToken::new();
        let slow = turns.take(Duration::from_millis(5), &cancel).await;
        assert!(matches!(slow, Err(RequestError::NotSent(_))));
        drop(first);
        drop(turns.take(long, &cancel).await.unwrap());
    }
}
