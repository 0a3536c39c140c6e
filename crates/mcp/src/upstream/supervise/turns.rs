//! Whose turn it is: a limited number of requests run, a limited number wait, and the rest are
//! refused. A request whose server asks somebody gives its turn back until the answer is there:
//! people who never answer would otherwise use up all turns, and nothing could reach the server.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    client::{AskError, Client, ClientAbilities, Question, QuestionKind},
    upstream::connection::RequestError,
};

pub(super) struct RequestTurns {
    free: Arc<Semaphore>,
    /// Requests that took a turn and are not over, also those that gave it back to ask.
    under_way: AtomicUsize,
    at_a_time: usize,
    waiting: AtomicUsize,
    may_wait: usize,
}

impl RequestTurns {
    pub(super) fn new(at_a_time: usize, may_wait: usize) -> Self {
        let at_a_time = at_a_time.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(at_a_time)),
            under_way: AtomicUsize::new(0),
            at_a_time,
            waiting: AtomicUsize::new(0),
            may_wait,
        }
    }

    /// Waits for a turn, which lasts until the returned value is dropped.
    pub(super) async fn take(
        self: &Arc<Self>,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<Arc<Turn>, RequestError> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(Turn::begin(self, permit));
        }
        let _waiting = self.wait()?;
        tokio::select! {
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            permit = tokio::time::timeout(within, Arc::clone(&self.free).acquire_owned()) => match permit {
                Ok(Ok(permit)) => Ok(Turn::begin(self, permit)),
                Ok(Err(_)) => Err(RequestError::NotSent("the server is being ended".to_owned())),
                Err(_) => Err(RequestError::NotSent(format!(
                    "its turn did not come within {} ms",
                    within.as_millis()
                ))),
            },
        }
    }

    /// How many requests took a turn and are not over.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
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

/// One request's turn, over when dropped.
pub(super) struct Turn {
    turns: Arc<RequestTurns>,
    /// None while somebody is asked.
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Turn {
    fn begin(turns: &Arc<RequestTurns>, permit: OwnedSemaphorePermit) -> Arc<Self> {
        turns.under_way.fetch_add(1, Ordering::AcqRel);
        Arc::new(Self {
            turns: Arc::clone(turns),
            permit: Mutex::new(Some(permit)),
        })
    }

    /// Gives the turn back until somebody has answered, then waits for another. It was accepted
    /// once, so the queue's limit does not apply to it; its deadline does.
    async fn given_back_during<T>(&self, asking: impl Future<Output = T>) -> T {
        drop(self.replace(None));
        let answers = asking.await;
        // Never closed; and if it were, the request goes on to find the server gone.
        if let Ok(permit) = Arc::clone(&self.turns.free).acquire_owned().await {
            drop(self.replace(Some(permit)));
        }
        answers
    }

    fn replace(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        let mut held = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, permit)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The client of a request: asking it gives the request's turn back.
pub(super) struct ClientOfTurn {
    pub(super) client: Arc<dyn Client>,
    pub(super) turn: Arc<Turn>,
}

impl Client for ClientOfTurn {
    fn abilities(&self) -> ClientAbilities {
        self.client.abilities()
    }

    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>> {
        let asking = self.client.ask(questions, cancel);
        Box::pin(self.turn.given_back_during(asking))
    }

    fn lacks(&self, kind: QuestionKind) {
        self.client.lacks(kind);
    }

    fn log(&self, message: Value) {
        self.client.log(message);
    }

    fn log_level(&self) -> Option<String> {
        self.client.log_level()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_nobody_answers_leaves_the_turn_to_others() {
        let turns = Arc::new(RequestTurns::new(1, 1));
        let cancel = CancellationToken::new();
        let long = Duration::from_mins(1);
        let asking = turns.take(long, &cancel).await.unwrap();
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let asked = {
            let asking = Arc::clone(&asking);
            tokio::spawn(async move { asking.given_back_during(answered).await })
        };
        tokio::task::yield_now().await;
        let other = turns.take(long, &cancel).await.unwrap();
        assert_eq!(turns.under_way(), 2, "a server that asks is not idle");

        // Whoever was answered waits for a turn like anybody.
        answer.send(()).unwrap();
        tokio::task::yield_now().await;
        assert!(!asked.is_finished());
        drop(other);
        asked.await.unwrap().unwrap();
        assert_eq!(turns.under_way(), 1);
        let third = turns.take(Duration::from_millis(5), &cancel).await;
        assert!(matches!(third.map(drop), Err(RequestError::NotSent(_))));
        drop(asking);
        assert_eq!(turns.under_way(), 0);
        drop(turns.take(long, &cancel).await.unwrap());
    }

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
