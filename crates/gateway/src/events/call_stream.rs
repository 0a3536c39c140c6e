//! The events of one call as a stream that ends with the call.
//!
//! The record is read again whenever something recorded has happened, after a moment in which more of it
//! can arrive, and now and then in case another process runs the call. A slow reader holds up nobody: it
//! is the one who reads, and what is live is dropped for it and counted.

use std::{convert::Infallible, time::Duration};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use haft_contract::{
    CallEvent, CallId, TenantId,
    event::RecordedEvent,
    host::{History as _, StoredEvent},
};
use haft_runtime::{EventFilter, HostEvent, HostEvents};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::{Gateway, open_streams::StreamPlace, time::rfc3339};

/// How long what was recorded is collected before the record is read: short enough for a person, long
/// enough for one read to find several events.
const COLLECT: Duration = Duration::from_millis(30);

/// How long after the last look the record is read in any case: another process may run the call.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A note of how far a call has got: the record drops it once the call ends, so it has no number.
const PROGRESS_NOTED: &str = "progress_noted";

/// The last event of a call.
const SETTLED: &str = "settled";

/// A recorded event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventView {
    /// Its number within the call, from 1; what `Last-Event-ID` takes.
    pub(crate) id: u64,
    /// When it happened.
    #[schema(format = DateTime)]
    pub(crate) at: String,
    /// What happened: `opened`, `planned`, `decided`, `approval_asked`, `started`, `settled` and so on.
    pub(crate) event: String,
    /// The event as it was recorded, secrets redacted.
    pub(crate) body: Value,
}

/// The events of a call that are on record and stay there, numbered.
pub(crate) fn numbered(recorded: Vec<StoredEvent>) -> Vec<EventView> {
    let kept = recorded
        .into_iter()
        .filter(|event| event.kind != PROGRESS_NOTED);
    let view = |(id, event): (u64, StoredEvent)| EventView {
        id,
        at: rfc3339(event.at),
        event: event.kind,
        body: event.body,
    };
    (1..).zip(kept).map(view).collect()
}

/// What a stream knows between two of its events.
struct CallStream {
    gateway: Gateway,
    tenant: TenantId,
    call: CallId,
    events: HostEvents,
    /// The number of the last recorded event that was sent.
    sent: u64,
    ready: std::collections::VecDeque<Event>,
    /// When the record is read next.
    look: Instant,
    is_over: bool,
    /// Whether there are still events to come.
    hears: bool,
    _place: StreamPlace,
}

/// The events of a call behind a number, and then as they happen, until the call has ended.
pub(crate) fn call_events(
    gateway: &Gateway,
    tenant: TenantId,
    call: CallId,
    after: u64,
    place: StreamPlace,
) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    // Listening begins before the record is read, so that nothing falls between.
    let events = gateway.runtime().events(EventFilter::call(call));
    let state = CallStream {
        gateway: gateway.clone(),
        tenant,
        call,
        events,
        sent: after,
        ready: std::collections::VecDeque::new(),
        look: Instant::now(),
        is_over: false,
        hears: true,
        _place: place,
    };
    stream::unfold(state, |mut state| async move {
        let event = state.next().await?;
        Some((Ok(event), state))
    })
}

impl CallStream {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let ending = self.gateway.ending().clone();
            tokio::select! {
                () = ending.cancelled() => {
                    self.is_over = true;
                    // Whoever reads reconnects with the number it has; `retry` says when.
                    return Some(Event::default().event("ending").retry(Duration::from_secs(1)).data("{}"));
                }
                () = tokio::time::sleep_until(self.look) => self.read_record().await,
                event = self.events.next(), if self.hears => self.heard(event),
            }
        }
    }

    /// Takes what happened: shows what is live, and has the record read for the rest.
    fn heard(&mut self, event: Option<HostEvent>) {
        match event {
            Some(HostEvent::Happened(observed)) => {
                if observed.happened.event.is_recorded() {
                    self.look_soon();
                } else {
                    self.ready.extend(self.live(&observed.happened));
                }
            }
            Some(HostEvent::FromRecord(_)) => self.look_soon(),
            Some(HostEvent::Missed(missed)) => {
                self.look_soon();
                if missed.live > 0 {
                    let data = json!({ "live": missed.live }).to_string();
                    self.ready
                        .push_back(Event::default().event("missed").data(data));
                }
            }
            // The host is gone; the record may have the end.
            None => {
                self.hears = false;
                self.look_soon();
            }
        }
    }

    fn look_soon(&mut self) {
        self.look = self.look.min(Instant::now() + COLLECT);
    }

    async fn read_record(&mut self) {
        self.look = Instant::now() + LOOK_AGAIN;
        // What is queued for the record is written now, so that its readers do not wait for the end of
        // the call.
        if let Err(error) = self.gateway.write_queued().await {
            tracing::warn!(%error, "the record is behind what watchers should see");
        }
        let recorded = self.gateway.ledger().events(&self.tenant, self.call).await;
        let recorded = match recorded {
            Ok(recorded) => recorded,
            Err(error) => {
                tracing::warn!(%error, "a stream could not read the record");
                return;
            }
        };
        for event in numbered(recorded) {
            if event.event == SETTLED {
                self.is_over = true;
            }
            if event.id <= self.sent {
                continue;
            }
            self.sent = event.id;
            let data = serde_json::to_string(&event).unwrap_or_default();
            let id = event.id.to_string();
            self.ready
                .push_back(Event::default().event(event.event).id(id).data(data));
        }
    }

    /// What shows a call at work, as an event without a number.
    fn live(&self, happened: &RecordedEvent) -> Option<Event> {
        let redactor = self.gateway.ledger().redactor();
        let (name, body) = match &happened.event {
            CallEvent::Output { stream, text } => (
                "output",
                json!({ "stream": stream.as_str(), "text": redactor.text(text) }),
            ),
            CallEvent::Progress(progress) => (
                "progress",
                json!({
                    "step": progress.step,
                    "total": progress.total,
                    "percentage": progress.percentage(),
                    "status": redactor.text(&progress.status),
                }),
            ),
            _ => return None,
        };
        let data = json!({ "at": rfc3339(happened.at), "body": body }).to_string();
        Some(Event::default().event(name).data(data))
    }
}
