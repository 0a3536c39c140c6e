//! Tells a person's pages that something has changed, and nothing else: no call, no name, no outcome. What
//! it is they then read as themselves.
//!
//! Many events become one word: a burst is collected, so a page is drawn again a few times a second at
//! most, whatever agents do. The stream ends after a while, so that a session that has ended does not go
//! on hearing that others work.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use haft_contract::{CallEvent, Principal};
use haft_runtime::{EventFilter, HostEvent, HostEvents};
use tokio::time::Instant;

use crate::{
    Gateway,
    identify::{Identified, READ},
    open_streams::StreamPlace,
};

/// How long changes are collected before the one word that they become is sent.
const COLLECT: Duration = Duration::from_millis(100);

/// How long a stream lasts. Its reader comes back by itself, and is looked up again.
const FEED_LASTS: Duration = Duration::from_mins(10);

/// How many events a stream may be behind with. More are not told one by one, and need not be.
const HELD: usize = 64;

/// Something about a question.
const APPROVALS: &str = "approvals";

/// Something about a call.
const CALLS: &str = "calls";

struct ChangeFeed {
    gateway: Gateway,
    who: Identified,
    events: HostEvents,
    ready: VecDeque<Event>,
    /// What has changed since the last word.
    calls: bool,
    approvals: bool,
    /// When that is said.
    due: Option<Instant>,
    ends: Instant,
    is_over: bool,
    _place: StreamPlace,
}

/// A word whenever a call or a question that this person may see has changed.
pub(crate) fn changes_of(
    gateway: &Gateway,
    who: Identified,
    place: StreamPlace,
) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    let now = Instant::now();
    let feed = ChangeFeed {
        events: gateway.runtime().events_held(EventFilter::host(), HELD),
        gateway: gateway.clone(),
        who,
        ready: VecDeque::new(),
        // A page is drawn before it listens, so it is told once that something may have changed between.
        calls: true,
        approvals: true,
        due: Some(now),
        ends: now + FEED_LASTS,
        is_over: false,
        _place: place,
    };
    stream::unfold(feed, |mut feed| async move {
        let event = feed.next().await?;
        Some((Ok(event), feed))
    })
}

impl ChangeFeed {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let ending = self.gateway.ending().clone();
            let due = self.due.unwrap_or(self.ends).min(self.ends);
            tokio::select! {
                () = ending.cancelled() => self.is_over = true,
                () = tokio::time::sleep_until(due) => self.say().await,
                event = self.events.next() => self.note(event.as_ref()),
            }
        }
    }

    fn note(&mut self, event: Option<&HostEvent>) {
        match event {
            Some(HostEvent::Happened(observed)) => {
                if !self.may_see(&observed.origin.principal) {
                    return;
                }
                let event = &observed.happened.event;
                let about_question = matches!(
                    event,
                    CallEvent::ApprovalAsked { .. }
                        | CallEvent::ApprovalAnswered { .. }
                        | CallEvent::Settled { .. }
                );
                if event.is_recorded() {
                    self.change(about_question);
                }
            }
            Some(HostEvent::FromRecord(recorded)) => {
                if self.may_see(&recorded.origin.principal) {
                    self.change(true);
                }
            }
            Some(HostEvent::Missed(_)) => self.change(true),
            None => self.is_over = true,
        }
    }

    fn may_see(&self, asker: &Principal) -> bool {
        let is_own = asker.user == *self.who.user() && asker.agent == *self.who.agent();
        asker.tenant == *self.who.tenant() && (is_own || self.who.has(READ))
    }

    fn change(&mut self, about_question: bool) {
        self.calls = true;
        self.approvals |= about_question;
        self.due.get_or_insert_with(|| Instant::now() + COLLECT);
    }

    async fn say(&mut self) {
        self.due = None;
        if Instant::now() >= self.ends {
            self.is_over = true;
        }
        if self.calls || self.approvals {
            // Whoever looks because of this word finds what it is about.
            if let Err(error) = self.gateway.write_queued().await {
                tracing::warn!(%error, "the record is behind what pages should show");
            }
        }
        for (name, has_changed) in [(APPROVALS, self.approvals), (CALLS, self.calls)] {
            if has_changed {
                self.ready
                    .push_back(Event::default().event(name).data("changed"));
            }
        }
        (self.calls, self.approvals) = (false, false);
    }
}
