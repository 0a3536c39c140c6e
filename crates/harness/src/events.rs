//! Collects the events of calls, so that a test can check what happened and in which order.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    CallEvent, CallId,
    event::{EventSink, RecordedEvent},
};

/// The most events kept; older ones are dropped and counted.
pub const MAX_EVENTS: usize = 100_000;

/// An event sink that keeps what it gets. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct EventLog(Arc<Mutex<SeenEvents>>);

#[derive(Debug, Default)]
struct SeenEvents {
    events: VecDeque<RecordedEvent>,
    dropped: u64,
}

impl EventLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything seen so far, in order.
    pub fn all(&self) -> Vec<RecordedEvent> {
        self.with(|seen| seen.events.iter().cloned().collect())
    }

    /// The events of one call, in order.
    pub fn of(&self, call: CallId) -> Vec<CallEvent> {
        self.with(|seen| {
            let of_call = seen.events.iter().filter(|happened| happened.call == call);
            of_call.map(|happened| happened.event.clone()).collect()
        })
    }

    /// The kinds of one call's events, in order.
    pub fn kinds(&self, call: CallId) -> Vec<&'static str> {
        self.of(call).iter().map(CallEvent::kind).collect()
    }

    /// How many events of a kind all calls had together.
    pub fn count(&self, kind: &str) -> usize {
        self.with(|seen| {
            let of_kind = seen
                .events
                .iter()
                .filter(|happened| happened.event.kind() == kind);
            of_kind.count()
        })
    }

    /// How many events were dropped because the log was full.
    pub fn dropped(&self) -> u64 {
        self.with(|seen| seen.dropped)
    }

    fn with<T>(&self, look: impl FnOnce(&mut SeenEvents) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventSink for EventLog {
    fn happened(&self, happened: &RecordedEvent) {
        self.with(|seen| {
            if seen.events.len() == MAX_EVENTS {
                seen.events.pop_front();
                seen.dropped += 1;
            }
            seen.events.push_back(happened.clone());
        });
    }
}
