//! The calls whose events found no room in a receiver's channel, and from when on. The record has
//! these events, or will have them; the receiver reads them from there.
//!
//! From its first dropped event on, a call's events all come from the record, until the last one that
//! was dropped has been read: so they stay in order, and none comes twice.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    CallEvent, CallId,
    event::{CallOrigin, RecordedEvent},
    host::{StoredEvent, Timestamp},
};
use tokio::{sync::Notify, time::Instant};

use super::receiver::{EventsFromRecord, MissedEvents};
use crate::event_channel::ChannelFull;

/// How many calls a receiver may be behind with. As many as may be in flight by default; of further
/// calls it is only told that it has to read them from the record itself.
const MISSED_CALLS: usize = 16_384;

/// How long an event may take to reach the record before the receiver gives up on it.
const RECORDED_WITHIN: Duration = Duration::from_secs(30);

/// A note of how far a call has got: the record drops it once the call ends.
const PROGRESS_NOTED: &str = "progress_noted";

/// What the settlement of a superseded claim is recorded as.
const SETTLED_LATE: &str = "settled_late";

/// Whether the record keeps an event for good.
pub(super) fn is_read_back(event: &CallEvent) -> bool {
    event.is_recorded() && !matches!(event, CallEvent::ProgressNoted(_))
}

/// What a receiver missed.
pub(super) struct MissedCalls {
    /// How many calls are in the table, so that a reader that keeps up costs no lock.
    count: AtomicUsize,
    table: Mutex<MissedTable>,
    changed: Notify,
    record: RecordReads,
}

/// Whether the record can be read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordReads {
    Available,
    Unavailable,
}

#[derive(Default)]
struct MissedTable {
    calls: HashMap<CallId, MissedCall>,
    /// Events that nobody reads back for the receiver.
    not_followed: MissedEvents,
}

/// A call whose events come from the record.
struct MissedCall {
    origin: CallOrigin,
    /// When the first dropped event happened.
    since: Timestamp,
    /// The last dropped event.
    last: (&'static str, Timestamp),
    noted: Instant,
    dropped: u64,
    /// Which of its events in the record is read next, once one of those dropped has been read.
    next: Option<usize>,
}

impl MissedCalls {
    pub(super) fn new(record: RecordReads) -> Self {
        Self {
            count: AtomicUsize::new(0),
            table: Mutex::default(),
            changed: Notify::new(),
            record,
        }
    }

    /// Offers an event to the channel, unless earlier events of its call are still to be read from
    /// the record. One that is not taken is noted.
    pub(super) fn unless_behind(
        &self,
        origin: &CallOrigin,
        happened: &RecordedEvent,
        offer: impl FnOnce() -> Result<(), ChannelFull>,
    ) {
        let mut table = self.table();
        let this = (happened.event.kind(), happened.at);
        if let Some(call) = table.calls.get_mut(&happened.call) {
            call.last = this;
            call.noted = Instant::now();
            call.dropped += 1;
            if call.next.is_none() {
                call.since = call.since.min(happened.at);
            }
        } else if offer().is_ok() {
            return;
        } else if self.record == RecordReads::Unavailable || table.calls.len() >= MISSED_CALLS {
            table.not_followed.add(1, happened.at);
        } else {
            let since = match happened.event {
                // The record has the request itself, which is a little older than the event.
                CallEvent::Opened { .. } => Timestamp(0),
                _ => happened.at,
            };
            table.calls.insert(
                happened.call,
                MissedCall {
                    origin: origin.clone(),
                    since,
                    last: this,
                    noted: Instant::now(),
                    dropped: 1,
                    next: None,
                },
            );
            self.count.store(table.calls.len(), Ordering::Release);
        }
        drop(table);
        self.changed.notify_one();
    }

    /// Whether events of a call are still to be read from the record.
    pub(super) fn is_behind(&self, call: CallId) -> bool {
        self.any() && self.table().calls.contains_key(&call)
    }

    /// Whether events of any call are.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The calls whose events are to be read, those first that missed theirs first.
    pub(super) fn calls(&self) -> Vec<(CallId, CallOrigin)> {
        let table = self.table();
        let mut calls: Vec<_> = table.calls.iter().collect();
        calls.sort_by_key(|(id, call)| (call.since, **id));
        calls
            .into_iter()
            .map(|(id, call)| (*id, call.origin.clone()))
            .collect()
    }

    /// Takes what the record has of a call now; returns what is new of it.
    pub(super) fn read_back(
        &self,
        id: CallId,
        recorded: Vec<StoredEvent>,
    ) -> Option<EventsFromRecord> {
        let mut table = self.table();
        let call = table.calls.get_mut(&id)?;
        let (kind, at) = call.last;
        let is_last = |event: &StoredEvent| {
            (event.kind == kind && (event.at == at || kind == "opened"))
                || (event.kind == SETTLED_LATE && event.at == at)
        };
        let is_whole = recorded.iter().any(is_last);
        let mut events = recorded;
        events.retain(|event| event.kind != PROGRESS_NOTED);
        let recorded = events.len();
        let first_missed = || events.iter().position(|event| event.at >= call.since);
        let next = call.next.or_else(first_missed);
        events.drain(..next.unwrap_or(recorded).min(recorded));
        // A look that failed has found nothing; what was told before stays told.
        call.next = next.map(|next| next.max(recorded));
        let origin = call.origin.clone();
        let gives_up = !is_whole && call.noted.elapsed() >= RECORDED_WITHIN;
        if is_whole || gives_up {
            let (since, dropped) = (call.since, call.dropped);
            table.calls.remove(&id);
            self.count.store(table.calls.len(), Ordering::Release);
            if gives_up {
                table.not_followed.add(dropped, since);
            }
        }
        drop(table);
        (!events.is_empty()).then_some(EventsFromRecord {
            call: id,
            origin,
            events,
        })
    }

    /// What nobody reads back for the receiver, since this was last asked.
    pub(super) fn take_not_followed(&self) -> MissedEvents {
        std::mem::take(&mut self.table().not_followed)
    }

    /// Resolves when there is more to read.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn table(&self) -> MutexGuard<'_, MissedTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::WorkspaceId;
    use haft_testkit::principal::principal;
    use serde_json::Value;

    use super::*;

    fn origin() -> CallOrigin {
        CallOrigin {
            principal: principal(),
            workspace: WorkspaceId::local(),
            model_call: None,
        }
    }

    fn at(call: CallId, at: i64, event: CallEvent) -> RecordedEvent {
        RecordedEvent {
            call,
            at: Timestamp(at),
            event,
        }
    }

    fn stored(sequence: u64, at: i64, kind: &str) -> StoredEvent {
        StoredEvent {
            sequence,
            record: 1,
            at: Timestamp(at),
            kind: kind.to_owned(),
            body: Value::Null,
        }
    }

    fn opened() -> CallEvent {
        CallEvent::Opened {
            workspace: WorkspaceId::local(),
        }
    }

    fn validated() -> CallEvent {
        CallEvent::Validated {
            coercions: Vec::new(),
        }
    }

    fn kinds(read: Option<EventsFromRecord>) -> Vec<String> {
        let events = read.into_iter().flat_map(|read| read.events);
        events.map(|event| event.kind).collect()
    }

    #[test]
    fn events_come_once_and_the_channel_again_after_the_last_was_read() {
        let missed = MissedCalls::new(RecordReads::Available);
        let (call, origin) = (CallId::new(), origin());
        let full = || Err(ChannelFull);
        missed.unless_behind(&origin, &at(call, 10, opened()), full);
        missed.unless_behind(&origin, &at(call, 20, validated()), || {
            panic!("an earlier event is still to be read")
        });
        assert!(missed.is_behind(call));

        // The record is behind; a note of progress is not for the reader, and vanishes later.
        let read = vec![stored(1, 9, "opened"), stored(2, 15, "progress_noted")];
        assert_eq!(kinds(missed.read_back(call, read)), ["opened"]);
        let read = vec![stored(1, 9, "opened"), stored(2, 15, "progress_noted")];
        assert_eq!(missed.read_back(call, read), None);
        let read = vec![stored(1, 9, "opened"), stored(2, 20, "validated")];
        assert_eq!(kinds(missed.read_back(call, read)), ["validated"]);

        assert!(!missed.any());
        let mut taken = 0;
        missed.unless_behind(&origin, &at(call, 30, validated()), || {
            taken += 1;
            Ok(())
        });
        assert_eq!((taken, missed.any()), (1, false));
        assert_eq!(missed.take_not_followed(), MissedEvents::default());
    }

    #[test]
    fn a_look_that_fails_repeats_nothing() {
        let missed = MissedCalls::new(RecordReads::Available);
        let (call, origin) = (CallId::new(), origin());
        let full = || Err(ChannelFull);
        missed.unless_behind(&origin, &at(call, 10, opened()), full);
        missed.unless_behind(&origin, &at(call, 20, validated()), full);
        let read = || vec![stored(1, 9, "opened")];
        assert_eq!(kinds(missed.read_back(call, read())), ["opened"]);
        assert_eq!(missed.read_back(call, Vec::new()), None);
        assert_eq!(missed.read_back(call, read()), None);
        let read = vec![stored(1, 9, "opened"), stored(2, 20, "validated")];
        assert_eq!(kinds(missed.read_back(call, read)), ["validated"]);
    }

    #[test]
    fn what_came_before_the_first_dropped_event_is_not_told_again() {
        let missed = MissedCalls::new(RecordReads::Available);
        let (call, origin) = (CallId::new(), origin());
        missed.unless_behind(&origin, &at(call, 20, validated()), || Err(ChannelFull));
        // The record does not have it yet.
        assert_eq!(missed.read_back(call, vec![stored(1, 9, "opened")]), None);
        let read = vec![
            stored(1, 9, "opened"),
            stored(2, 15, "resolved"),
            stored(3, 20, "validated"),
        ];
        assert_eq!(kinds(missed.read_back(call, read)), ["validated"]);
    }

    #[test]
    fn without_a_record_to_read_the_reader_is_told_how_much_and_since_when() {
        let missed = MissedCalls::new(RecordReads::Unavailable);
        let origin = origin();
        for number in [30, 20, 40] {
            let happened = at(CallId::new(), number, opened());
            missed.unless_behind(&origin, &happened, || Err(ChannelFull));
        }
        let told = MissedEvents {
            live: 0,
            recorded: 3,
            since: Some(Timestamp(20)),
        };
        assert_eq!(missed.take_not_followed(), told);
        assert!(!missed.any());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_never_reaches_the_record_is_given_up() {
        let missed = MissedCalls::new(RecordReads::Available);
        let call = CallId::new();
        missed.unless_behind(&origin(), &at(call, 20, validated()), || Err(ChannelFull));
        assert_eq!(missed.read_back(call, Vec::new()), None);
        assert!(missed.any());
        tokio::time::advance(RECORDED_WITHIN).await;
        assert_eq!(missed.read_back(call, Vec::new()), None);
        assert!(!missed.any());
        assert_eq!(missed.take_not_followed().recorded, 1);
    }
}
