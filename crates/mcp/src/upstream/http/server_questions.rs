//! Questions that an older server asks on its own stream, separate from the answers. Nothing on
//! that stream says which call a question belongs to, so it goes to the only call in flight or is
//! refused: a person must never be asked in the name of somebody else's call.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    size::json_bytes_within,
    upstream::limits::{QUESTION_BYTES, QUESTIONS},
};

/// The id, method and parameters of a server's request.
pub(super) type ServerRequest = (Value, String, Value);

/// The calls in flight, and where each receives questions.
#[derive(Debug, Default)]
pub(super) struct ServerQuestions {
    calls: Mutex<HashMap<u64, mpsc::Sender<ServerRequest>>>,
}

/// Where one call receives questions while it is in flight.
#[derive(Debug)]
pub(super) struct QuestionSlot {
    id: u64,
    beside: Arc<ServerQuestions>,
    questions: mpsc::Receiver<ServerRequest>,
}

impl ServerQuestions {
    fn calls(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<ServerRequest>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a slot for a call.
    pub(super) fn begin(self: &Arc<Self>, id: u64) -> QuestionSlot {
        let (sender, questions) = mpsc::channel(QUESTIONS);
        self.calls().insert(id, sender);
        QuestionSlot {
            id,
            beside: Arc::clone(self),
            questions,
        }
    }

    /// How many calls are in flight.
    pub(super) fn len(&self) -> usize {
        self.calls().len()
    }

    /// Hands a question to the only call in flight, or gives it back.
    pub(super) fn ask(&self, asked: ServerRequest) -> Option<ServerRequest> {
        if json_bytes_within(&asked.2, QUESTION_BYTES).is_none() {
            return Some(asked);
        }
        let calls = self.calls();
        let mut all = calls.values();
        match (all.next(), all.next()) {
            (Some(only), None) => only.try_send(asked).err().map(|error| match error {
                mpsc::error::TrySendError::Full(asked)
                | mpsc::error::TrySendError::Closed(asked) => asked,
            }),
            (_, _) => Some(asked),
        }
    }
}

impl QuestionSlot {
    /// The next question.
    pub(super) async fn next(&mut self) -> ServerRequest {
        match self.questions.recv().await {
            Some(asked) => asked,
            // We hold a sender ourselves, so the channel never closes.
            None => std::future::pending().await,
        }
    }
}

impl Drop for QuestionSlot {
    fn drop(&mut self) {
        self.beside.calls().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(id: u64) -> ServerRequest {
        (json!(id), "elicitation/create".to_owned(), json!({}))
    }

    #[tokio::test]
    async fn a_question_is_taken_for_the_only_call_or_refused() {
        let beside = Arc::new(ServerQuestions::default());
        assert!(beside.ask(asked(1)).is_some());
        let mut only = beside.begin(7);
        assert!(beside.ask(asked(2)).is_none());
        assert_eq!(only.next().await, asked(2));
        let other = beside.begin(8);
        assert!(beside.ask(asked(3)).is_some());
        drop(other);
        assert!(beside.ask(asked(4)).is_none());
        drop(only);
        assert!(beside.ask(asked(5)).is_some());
    }

    #[tokio::test]
    async fn questions_that_nobody_reads_are_refused_at_some_point() {
        let beside = Arc::new(ServerQuestions::default());
        let _only = beside.begin(1);
        let taken = (0..100).take_while(|id| beside.ask(asked(*id)).is_none());
        assert_eq!(taken.count(), QUESTIONS);
    }
}
