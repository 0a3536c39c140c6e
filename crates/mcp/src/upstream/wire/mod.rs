//! What a session needs from a transport: sending messages, and receiving what belongs to a
//! request.

#[cfg(test)]
mod fuzz;
pub(crate) mod message;

use std::sync::atomic::{AtomicU64, Ordering};

use haft_contract::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::connection::{Progress, ProtocolEra, RequestError};

/// A request to send.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Its id, which is also its progress token.
    pub(crate) id: u64,
    /// Who it is sent for.
    pub(crate) purpose: RequestPurpose,
    /// The whole message, as it is sent.
    pub(crate) message: String,
    /// The headers of the stateless era, if any.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Who a request is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    /// A call: the server may log and ask during it.
    Call,
    /// Haft itself: lists, the handshake, listening.
    Own,
}

/// Something that belongs to a request.
#[derive(Debug)]
pub(crate) enum Event {
    /// The final answer.
    Answer(Result<Value, RequestError>),
    /// A progress report.
    Progress(Progress),
    /// A log message: the parameters of `notifications/message`.
    Log(Value),
    /// A request from the server.
    Asked {
        /// Its id, to be returned unchanged.
        id: Value,
        /// The requested method.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Any other notification.
    Notice {
        /// The notification's method.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
}

/// A request in flight. Dropping it abandons the answer.
pub(crate) trait Exchange: Send {
    /// The next event. An error ends the exchange.
    fn next(&mut self) -> BoxFuture<'_, Result<Event, RequestError>>;
}

/// A transport to a server.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Sends a request.
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Box<dyn Exchange>, RequestError>>;

    /// Sends a message that has no answer.
    fn send(&self, message: Value) -> BoxFuture<'_, Result<(), RequestError>>;

    /// Queues a message, or drops it if that is not possible.
    fn tell(&self, message: Value);

    /// How many exchanges of calls are open.
    fn under_way(&self) -> usize;

    /// Whether abandoning an exchange already notifies the server.
    fn closing_cancels(&self) -> bool;

    /// Whether requests of the stateless era carry headers.
    fn has_headers(&self) -> bool;

    /// Receives the negotiated version before anything else is sent.
    fn agreed(&self, era: ProtocolEra, version: &str);

    /// Waits until the connection is gone, and says why.
    fn closed(&self) -> BoxFuture<'_, String>;

    /// Closes it. Returns when that is done.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Counts of the messages from a server that were dropped.
#[derive(Debug, Default)]
pub struct DroppedMessages {
    /// Output that is not a message: something a library printed to stdout.
    not_messages: AtomicU64,
    /// Messages that violate the protocol.
    broken: AtomicU64,
    /// Answers to requests that were not in flight.
    unknown_answers: AtomicU64,
    /// Notifications that arrived faster than they are handled.
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

    /// Lines that are not messages, broken messages, unknown answers, excess notifications.
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

/// Parses the parameters of `notifications/progress`, if they are for this request.
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
