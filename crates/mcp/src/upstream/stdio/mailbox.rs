//! The requests in flight on one pipe, and the messages received for each. A flood of progress
//! keeps only the newest report, a flood of log messages the first few; nothing grows with what a
//! server sends.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::future::BoxFuture;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    size::json_bytes_within,
    upstream::{
        connection::{Progress, RequestError},
        limits::{LOG_BYTES, QUESTION_BYTES, QUESTIONS, WAITING_LOGS},
        wire::{DroppedMessages, Event, Exchange, Outgoing, RequestPurpose},
    },
};

/// Received messages of one request that were not read yet.
#[derive(Debug, Default)]
struct PendingMessages {
    progress: Option<Progress>,
    logs: VecDeque<Value>,
    asked: VecDeque<(Value, String, Value)>,
    answer: Option<Result<Value, RequestError>>,
}

#[derive(Debug)]
struct Mailbox {
    purpose: RequestPurpose,
    letters: Mutex<PendingMessages>,
    came: Notify,
}

impl Mailbox {
    fn letters(&self) -> MutexGuard<'_, PendingMessages> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests in flight.
#[derive(Debug, Default)]
pub(super) struct Pending {
    open: Mutex<OpenRequests>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    boxes: HashMap<u64, Arc<Mailbox>>,
    /// Why there will be no more answers.
    ended: Option<RequestError>,
}

impl Pending {
    fn open(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a mailbox for a request before it is sent.
    pub(super) fn begin(
        self: &Arc<Self>,
        outgoing: &Outgoing,
    ) -> Result<MailExchange, RequestError> {
        let id = outgoing.id;
        let mailbox = Arc::new(Mailbox {
            purpose: outgoing.purpose,
            letters: Mutex::default(),
            came: Notify::new(),
        });
        let mut open = self.open();
        if let Some(RequestError::Lost(why) | RequestError::Protocol(why)) = &open.ended {
            return Err(RequestError::NotSent(why.clone()));
        }
        open.boxes.insert(id, Arc::clone(&mailbox));
        drop(open);
        Ok(MailExchange {
            id,
            mailbox,
            pending: Arc::clone(self),
        })
    }

    fn of(&self, id: u64) -> Option<Arc<Mailbox>> {
        self.open().boxes.get(&id).cloned()
    }

    /// Whether a request is in flight.
    pub(super) fn knows(&self, id: u64) -> bool {
        self.open().boxes.contains_key(&id)
    }

    /// How many call requests are in flight.
    pub(super) fn calls(&self) -> usize {
        let open = self.open();
        let of_calls = open.boxes.values();
        of_calls
            .filter(|mailbox| mailbox.purpose == RequestPurpose::Call)
            .count()
    }

    /// Delivers an answer; only the first counts. Nothing happens if nobody waits any more.
    pub(super) fn answer(&self, id: u64, answer: Result<Value, RequestError>) {
        let mailbox = self.open().boxes.remove(&id);
        if let Some(mailbox) = mailbox {
            mailbox.letters().answer = Some(answer);
            mailbox.came.notify_one();
        }
    }

    /// Delivers a progress report.
    pub(super) fn progress(&self, id: u64, progress: Progress, dropped: &DroppedMessages) {
        let Some(mailbox) = self.of(id) else {
            dropped.flood();
            return;
        };
        if mailbox.letters().progress.replace(progress).is_some() {
            dropped.flood();
        }
        mailbox.came.notify_one();
    }

    /// Delivers a log message. A pipe does not say which call it belongs to, so it is passed on
    /// only when there is no doubt.
    pub(super) fn log(&self, message: &Value, dropped: &DroppedMessages) {
        let Some(mailbox) = self.only() else {
            dropped.flood();
            return;
        };
        if json_bytes_within(message, LOG_BYTES).is_none() {
            dropped.flood();
            return;
        }
        let mut letters = mailbox.letters();
        if letters.logs.len() < WAITING_LOGS {
            letters.logs.push_back(message.clone());
        } else {
            dropped.flood();
        }
        drop(letters);
        mailbox.came.notify_one();
    }

    /// Delivers a server request; gives it back if it is unclear which call it belongs to. A pipe
    /// does not say, and a person must never be asked in the name of somebody else's call.
    pub(super) fn asked(
        &self,
        id: Value,
        method: String,
        parameters: Value,
    ) -> Result<(), (Value, &'static str)> {
        let Some(mailbox) = self.only() else {
            let why = "it does not belong to the one call under way";
            return Err((id, why));
        };
        if json_bytes_within(&parameters, QUESTION_BYTES).is_none() {
            return Err((id, "the question is too large"));
        }
        let mut letters = mailbox.letters();
        if letters.asked.len() >= QUESTIONS {
            return Err((id, "too many questions at once"));
        }
        letters.asked.push_back((id, method, parameters));
        drop(letters);
        mailbox.came.notify_one();
        Ok(())
    }

    fn only(&self) -> Option<Arc<Mailbox>> {
        let open = self.open();
        let mut boxes = open
            .boxes
            .values()
            .filter(|mailbox| mailbox.purpose == RequestPurpose::Call);
        match (boxes.next(), boxes.next()) {
            (Some(only), None) => Some(Arc::clone(only)),
            (_, _) => None,
        }
    }

    /// Ends every request in flight, and every later one.
    pub(super) fn end(&self, why: &RequestError) {
        let mut open = self.open();
        open.ended.get_or_insert_with(|| why.clone());
        let boxes = std::mem::take(&mut open.boxes);
        drop(open);
        for mailbox in boxes.into_values() {
            mailbox.letters().answer = Some(Err(why.clone()));
            mailbox.came.notify_one();
        }
    }
}

/// A request on a pipe.
#[derive(Debug)]
pub(super) struct MailExchange {
    id: u64,
    mailbox: Arc<Mailbox>,
    pending: Arc<Pending>,
}

impl MailExchange {
    fn take(&self) -> Option<Event> {
        let mut letters = self.mailbox.letters();
        if let Some(progress) = letters.progress.take() {
            return Some(Event::Progress(progress));
        }
        if let Some(message) = letters.logs.pop_front() {
            return Some(Event::Log(message));
        }
        if let Some((id, method, parameters)) = letters.asked.pop_front() {
            return Some(Event::Asked {
                id,
                method,
                parameters,
            });
        }
        letters.answer.take().map(Event::Answer)
    }
}

impl Exchange for MailExchange {
    fn next(&mut self) -> BoxFuture<'_, Result<Event, RequestError>> {
        Box::pin(async move {
            loop {
                if let Some(event) = self.take() {
                    return Ok(event);
                }
                self.mailbox.came.notified().await;
            }
        })
    }
}

impl Drop for MailExchange {
    fn drop(&mut self) {
        self.pending.open().boxes.remove(&self.id);
    }
}
