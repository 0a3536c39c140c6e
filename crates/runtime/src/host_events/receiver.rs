//! The receiving end: events as they happen, and from the record what there was no room for.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use haft_contract::{
    CallId,
    event::{CallOrigin, ObservedEvent},
    host::{History, Ledger, StoredEvent, Timestamp},
};

use super::{
    filter::EventFilter,
    listeners::{Listeners, SubscriptionPlace},
    missed_calls::{MissedCalls, RecordReads},
};
use crate::event_channel::{EventReceiver, channel_of};

/// The pause before the record is looked at again for what it did not have yet.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long one look at the record may take.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// What a receiver is told.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// An event, as it happened.
    Happened(Box<ObservedEvent>),
    /// Events of one call that there was no room for, read back from the record.
    FromRecord(EventsFromRecord),
    /// Events that are not told one by one.
    Missed(MissedEvents),
}

/// Events of one call, in order, as the record has them.
#[derive(Debug, Clone, PartialEq)]
pub struct EventsFromRecord {
    /// The call.
    pub call: CallId,
    /// Who made it, and where.
    pub origin: CallOrigin,
    /// Its events, secrets redacted.
    pub events: Vec<StoredEvent>,
}

/// How much a receiver was not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MissedEvents {
    /// Events that only show calls at work: progress, output, items. No record has them.
    pub live: u64,
    /// Events that are on record and must be read there, because the receiver was behind with too
    /// many calls.
    pub recorded: u64,
    /// When the first of those on record happened.
    /// [`History::replayable`] lists calls from there on.
    pub since: Option<Timestamp>,
}

impl MissedEvents {
    pub(super) fn add(&mut self, recorded: u64, at: Timestamp) {
        self.recorded += recorded;
        self.since = Some(self.since.map_or(at, |since| since.min(at)));
    }
}

/// Receives the events of calls. No call waits for it; dropping it ends the listening.
///
/// What shows a call at work (progress, output, items) is dropped while the receiver has no room, and
/// counted. Everything else is on record: of a call that there was no room for, the events come from
/// there, in order and none twice, once the record has them.
pub struct HostEvents {
    receiver: EventReceiver<ObservedEvent>,
    missed: Arc<MissedCalls>,
    ledger: Arc<dyn Ledger>,
    listeners: Weak<Listeners>,
    place: SubscriptionPlace,
    holds: usize,
    /// Events passed on since the record was last looked at.
    passed: usize,
    /// Whether the runtime is gone.
    closed: bool,
}

impl HostEvents {
    pub(crate) fn listen(
        listeners: &Arc<Listeners>,
        ledger: Arc<dyn Ledger>,
        filter: EventFilter,
        holds: usize,
    ) -> Self {
        let (queue, receiver) = channel_of(holds);
        let record = match ledger.history() {
            Some(_) => RecordReads::Available,
            None => RecordReads::Unavailable,
        };
        let missed = Arc::new(MissedCalls::new(record));
        let place = listeners.add(filter, queue, Arc::clone(&missed));
        Self {
            receiver,
            missed,
            ledger,
            listeners: Arc::downgrade(listeners),
            place,
            holds: holds.max(1),
            passed: 0,
            closed: false,
        }
    }

    /// What happened next; `None` once the runtime is gone and everything was told. Cancel safe.
    pub async fn next(&mut self) -> Option<HostEvent> {
        loop {
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            self.passed = 0;
            if let Some(events) = self.catch_up().await {
                return Some(HostEvent::FromRecord(events));
            }
            if self.closed && !self.missed.any() {
                return self.take_missed();
            }
            tokio::select! {
                biased;
                next = self.receiver.next(), if !self.closed => match next {
                    Some(event) => return Some(self.happened(event)),
                    None => self.closed = true,
                },
                () = self.missed.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN), if self.missed.any() => {}
            }
        }
    }

    /// What is there already, if that is not to be read from the record.
    pub fn try_next(&mut self) -> Option<HostEvent> {
        // A reader that is always a little behind still comes to what it missed.
        if self.passed >= self.holds && self.missed.any() {
            return None;
        }
        match self.receiver.try_next() {
            Some(event) => Some(self.happened(event)),
            None => self.take_missed(),
        }
    }

    fn happened(&mut self, event: ObservedEvent) -> HostEvent {
        self.passed += 1;
        HostEvent::Happened(Box::new(event))
    }

    fn take_missed(&self) -> Option<HostEvent> {
        let mut missed = self.missed.take_not_followed();
        missed.live = self.receiver.missed();
        (missed != MissedEvents::default()).then_some(HostEvent::Missed(missed))
    }

    /// Reads the events of the next call that has any from the record.
    async fn catch_up(&self) -> Option<EventsFromRecord> {
        if !self.missed.any() {
            return None;
        }
        let history = self.ledger.history()?;
        // What was queued for the record is then in it.
        if let Err(error) = in_time(self.ledger.flush()).await {
            tracing::debug!(%error, "the record could not be flushed for a listener");
        }
        for (call, origin) in self.missed.calls() {
            let read = read(&*history, call, &origin).await;
            if let Some(events) = self.missed.read_back(call, read) {
                return Some(events);
            }
        }
        None
    }
}

/// The events of a call that the record has; none if it cannot be read now.
async fn read(history: &dyn History, call: CallId, origin: &CallOrigin) -> Vec<StoredEvent> {
    let tenant = &origin.principal.tenant;
    let events = in_time(history.events(tenant, call)).await;
    events.unwrap_or_else(|error| {
        tracing::debug!(%error, %call, "events could not be read back from the record");
        Vec::new()
    })
}

async fn in_time<T, E: std::fmt::Display>(
    look: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(LOOK_TIME, look).await {
        Ok(looked) => looked.map_err(|error| error.to_string()),
        Err(_) => Err("it took too long".to_owned()),
    }
}

impl Drop for HostEvents {
    fn drop(&mut self) {
        if let Some(listeners) = self.listeners.upgrade() {
            listeners.remove(&self.place);
        }
    }
}

impl std::fmt::Debug for HostEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostEvents").finish_non_exhaustive()
    }
}
