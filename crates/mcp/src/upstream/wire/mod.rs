//! What a session needs of a transport: to send messages, and to hear what belongs to a request.

#[cfg(test)]
mod fuzz;
pub(crate) mod message;

use std::sync::atomic::{AtomicU64, Ordering};

use haft_contract::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::connection::{Progress, ProtocolEra, RequestError};

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Its id, which is also its progress token.
    pub(crate) id: u64,
    /// Whose it is.
    pub(crate) purpose: RequestPurpose,
    /// The whole message, as it is sent.
    pub(crate) message: String,
    /// What the stateless era wants in headers, where there are any.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Whose a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// A call's: the server may log and ask during it.
    Call,
    /// Our own: lists, the handshake, listening.
    Own,
}

/// Something that belongs to a request.
#[derive(Debug)]
pub(crate) enum Event {
    /// Its end.
    Answer(Result<Value, RequestError>),
    /// How far it is.
    Progress(Progress),
    /// A log message: the parameters of `notifications/message`.
    Log(Value),
    /// A request of the server.
    Asked {
        /// Its id, to be given back as it came.
        id: Value,
        /// What it wants.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Any other notification.
    Notice {
        /// Of what.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
}

/// A request under way. Dropping it gives up on the answer.
pub(crate) trait Exchange: Send {
    /// What comes next. An error ends the exchange.
    fn next(&mut self) -> BoxFuture<'_, Result<Event, RequestError>>;
}

/// A way to a server.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Sends a request.
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Box<dyn Exchange>, RequestError>>;

    /// Sends a message that has no answer.
    fn send(&self, message: Value) -> BoxFuture<'_, Result<(), RequestError>>;

    /// Sends a message soon, or never if that is not possible.
    fn tell(&self, message: Value);

    /// How many exchanges of calls are open.
    fn under_way(&self) -> usize;

    /// Whether giving up on an exchange tells the server already.
    fn closing_cancels(&self) -> bool;

    /// Whether requests of the stateless era carry headers.
    fn has_headers(&self) -> bool;

    /// Hears what was agreed on, before anything else is sent.
    fn agreed(&self, era: ProtocolEra, version: &str);

    /// Waits until the way is gone, and says why.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Ends it. Returns when that is done.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a server sent that was not taken, counted.
#[derive(Debug, Default)]
pub struct DroppedMessages {
    /// What was no message: something a library printed to stdout.
    not_messages: AtomicU64,
    /// Messages that broke the rules.
    broken: AtomicU64,
    /// Answers to requests that were not under way.
    unknown_answers: AtomicU64,
    /// Notifications that came faster than they are taken.
    floods: AtomicU64,
}

impl DroppedMessages {
    pub(crate) fn not_a_message(&self) {
        self.not_messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn broken(&self) {
        self.broken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unknown_answer(&self) {
        self.unknown_answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn flood(&self) {
        self.floods.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines that were no messages, broken messages, unknown answers, notifications in excess.
    pub fn counts(&self) -> [u64; 4] {
        [
            &self.not_messages,
            &self.broken,
            &self.unknown_answers,
            &self.floods,
        ]
        .map(|count| count.load(Ordering::Relaxed))
    }
}

/// Reads the parameters of `notifications/progress`, if they are for this request.
pub(crate) fn progress(parameters: &Value, id: u64) -> Option<Progress> {
    if parameters.get("progressToken")?.as_u64()? != id {
        return None;
    }
    let number = |key: &str| parameters.get(key)?.as_f64().filter(|n| n.is_finite());
    let words = |message: &Value| {
        let message = message.as_str()?;
        Some(message.chars().take(super::limits::WORDS_CHARS).collect())
    };
    Some(Progress {
        progress: number("progress")?,
        total: number("total"),
        message: parameters.get("message").and_then(words),
    })
}
