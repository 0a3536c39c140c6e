//! Everybody who listens to the calls of a runtime: the sinks it was built with, and receivers that
//! come and go. Receivers are found by what they listen to, so a thousand of them cost a call no more
//! than one.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use haft_contract::{
    CallId, SessionId, TenantId,
    event::{CallOrigin, EventSink, ObservedEvent, RecordedEvent},
};

use super::{
    filter::{EventDetail, EventFilter, EventScope},
    missed_calls::{MissedCalls, is_read_back},
};
use crate::event_channel::{EventQueue, EventRank};

/// Everybody who listens.
#[derive(Default)]
pub(crate) struct Listeners {
    sinks: Box<[Arc<dyn EventSink>]>,
    /// How many receivers there are: most hosts have none, and look no further.
    count: AtomicUsize,
    receivers: RwLock<Receivers>,
    next: AtomicU64,
}

#[derive(Default)]
struct Receivers {
    host: Vec<Arc<Subscription>>,
    sessions: HashMap<TenantId, HashMap<SessionId, Vec<Arc<Subscription>>>>,
    calls: HashMap<CallId, Vec<Arc<Subscription>>>,
}

/// What one receiver listens to, and the way to it.
pub(super) struct Subscription {
    number: u64,
    detail: EventDetail,
    queue: EventQueue<ObservedEvent>,
    missed: Arc<MissedCalls>,
}

/// A receiver's place among the listeners, by which it is removed.
pub(super) struct SubscriptionPlace {
    number: u64,
    scope: EventScope,
}

impl Listeners {
    pub(crate) fn new(sinks: Vec<Arc<dyn EventSink>>) -> Self {
        Self {
            sinks: sinks.into(),
            ..Self::default()
        }
    }

    /// Whether anybody listens to a call.
    pub(crate) fn watch(&self, call: CallId, origin: &CallOrigin) -> bool {
        !self.sinks.is_empty()
            || (self.count.load(Ordering::Relaxed) > 0
                && self.read(|receivers| receivers.of(call, origin).next().is_some()))
    }

    /// Tells everybody who listens to the call.
    pub(crate) fn tell(&self, origin: &CallOrigin, happened: &RecordedEvent) {
        for sink in &self.sinks {
            sink.happened(happened);
        }
        if self.count.load(Ordering::Relaxed) > 0 {
            self.read(|receivers| {
                for subscription in receivers.of(happened.call, origin) {
                    subscription.take(origin, happened);
                }
            });
        }
    }

    pub(super) fn add(
        &self,
        filter: EventFilter,
        queue: EventQueue<ObservedEvent>,
        missed: Arc<MissedCalls>,
    ) -> SubscriptionPlace {
        let EventFilter { scope, detail } = filter;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let subscription = Arc::new(Subscription {
            number,
            detail,
            queue,
            missed,
        });
        let mut receivers = self
            .receivers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match &scope {
            EventScope::Host => receivers.host.push(subscription),
            EventScope::Session(tenant, session) => {
                let of_tenant = receivers.sessions.entry(tenant.clone()).or_default();
                let of_session = of_tenant.entry(session.clone()).or_default();
                of_session.push(subscription);
            }
            EventScope::Calls(calls) => {
                for call in calls.iter() {
                    let of_call = receivers.calls.entry(*call).or_default();
                    of_call.push(Arc::clone(&subscription));
                }
            }
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        SubscriptionPlace { number, scope }
    }

    pub(super) fn remove(&self, place: &SubscriptionPlace) {
        let mut receivers = self
            .receivers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match &place.scope {
            EventScope::Host => without(&mut receivers.host, place.number),
            EventScope::Session(tenant, session) => {
                if let Some(of_tenant) = receivers.sessions.get_mut(tenant) {
                    remove_from(of_tenant, session, place.number);
                    if of_tenant.is_empty() {
                        receivers.sessions.remove(tenant);
                    }
                }
            }
            EventScope::Calls(calls) => {
                for call in calls.iter() {
                    remove_from(&mut receivers.calls, call, place.number);
                }
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    fn read<T>(&self, look: impl FnOnce(&Receivers) -> T) -> T {
        look(
            &self
                .receivers
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Receivers {
    /// Those that listen to a call.
    fn of(&self, call: CallId, origin: &CallOrigin) -> impl Iterator<Item = &Arc<Subscription>> {
        let principal = &origin.principal;
        let of_tenant = self.sessions.get(&principal.tenant);
        let of_session = of_tenant.and_then(|sessions| sessions.get(&principal.session));
        let of_call = self.calls.get(&call);
        let others = of_session.into_iter().chain(of_call).flatten();
        self.host.iter().chain(others)
    }
}

impl Subscription {
    /// Passes an event on, or notes that there was no room. Never waits.
    fn take(&self, origin: &CallOrigin, happened: &RecordedEvent) {
        let observed = || ObservedEvent {
            origin: origin.clone(),
            happened: happened.clone(),
        };
        let is_live = happened.event.is_live();
        if self.detail == EventDetail::OnlyLive && !is_live {
            return;
        }
        if is_read_back(&happened.event) {
            let offer = || self.queue.offer(EventRank::Tells, observed);
            self.missed.unless_behind(origin, happened, offer);
            return;
        }
        let rank = if is_live {
            EventRank::Shows
        } else {
            EventRank::Tells
        };
        // What precedes it is still to be read from the record.
        let is_behind = self.missed.is_behind(happened.call);
        if is_behind || self.queue.offer(rank, observed).is_err() {
            self.queue.count_missed();
        }
    }
}

fn without(subscriptions: &mut Vec<Arc<Subscription>>, number: u64) {
    subscriptions.retain(|subscription| subscription.number != number);
}

fn remove_from<K: Eq + Hash>(
    subscriptions: &mut HashMap<K, Vec<Arc<Subscription>>>,
    key: &K,
    number: u64,
) {
    if let Some(of_key) = subscriptions.get_mut(key) {
        without(of_key, number);
        if of_key.is_empty() {
            subscriptions.remove(key);
        }
    }
}
