//! Receivers of events: what they listen to, and that a slow one loses nothing that is on record and
//! slows no call.

use std::{collections::HashMap, time::Duration};

use haft_contract::{CallEvent, CallId, ModelCallId, event::ObservedEvent, host::History as _};
use haft_runtime::{EventFilter, HostEvent, HostEvents, MissedEvents};
use haft_testkit::{
    FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer, principal::in_session, sample,
};
use serde_json::json;

fn harness() -> Harness {
    Harness::memory().tools(sample::all()).build()
}

/// What a receiver was told.
#[derive(Default)]
struct CollectedEvents {
    /// The recorded events of each call, in the order in which they came.
    kinds: HashMap<CallId, Vec<String>>,
    live: Vec<ObservedEvent>,
    from_record: usize,
    missed: MissedEvents,
}

impl CollectedEvents {
    fn add(&mut self, event: HostEvent) {
        match event {
            HostEvent::Happened(observed) => {
                let happened = &observed.happened;
                if happened.event.is_recorded() {
                    let kinds = self.kinds.entry(happened.call).or_default();
                    kinds.push(happened.event.kind().to_owned());
                }
                self.live.push(*observed);
            }
            HostEvent::FromRecord(read) => {
                self.from_record += read.events.len();
                let kinds = self.kinds.entry(read.call).or_default();
                kinds.extend(read.events.into_iter().map(|event| event.kind));
            }
            HostEvent::Missed(missed) => {
                self.missed.live += missed.live;
                self.missed.recorded += missed.recorded;
            }
        }
    }

    /// Everything until the runtime is gone.
    async fn rest_of(mut events: HostEvents) -> Self {
        let mut told = Self::default();
        while let Some(event) = events.next().await {
            told.add(event);
        }
        told
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_loses_nothing_that_is_on_record() {
    let harness = harness();
    let events = harness.runtime.events_held(EventFilter::host(), 4);
    let requests = (0..50)
        .map(|number| harness.request("echo", json!({"text": number.to_string()})))
        .collect::<Vec<_>>();
    let calls: Vec<CallId> = requests.iter().map(|request| request.id).collect();
    // Nobody reads meanwhile, and every call ends.
    let outcomes = harness.runtime.batch(requests).await;
    assert!(outcomes.iter().all(|outcome| outcome.succeeded()));
    let record = harness.ledger.clone();
    drop(harness);

    let told = CollectedEvents::rest_of(events).await;

    assert!(told.from_record > 0, "the channel held everything");
    assert_eq!(told.missed.recorded, 0);
    assert_eq!(told.kinds.len(), calls.len());
    for call in calls {
        assert_eq!(told.kinds[&call], record.kinds(call), "{call}");
    }
}

#[tokio::test]
async fn a_reader_that_keeps_up_is_told_as_it_happens_and_reads_no_record() {
    let harness = harness();
    let mut events = harness.runtime.events(EventFilter::host());
    let outcome = harness.succeed("echo", json!({"text": "hello"})).await;
    let record = harness.ledger.clone();
    // With the store down, nothing could be read back.
    record.set_down(true);
    let mut told = CollectedEvents::default();
    while told.live.last().map(|one| one.happened.event.kind()) != Some("settled") {
        told.add(events.next().await.unwrap());
    }
    assert_eq!(told.from_record, 0);
    assert_eq!(told.missed, MissedEvents::default());
    record.set_down(false);
    assert_eq!(told.kinds[&outcome.call], record.kinds(outcome.call));
}

#[tokio::test]
async fn a_filter_lets_through_a_session_or_a_call_and_says_whose_it_is() {
    let harness = harness();
    let other = in_session("other");
    let mut first = harness.request("echo", json!({"text": "one"}));
    first.model_call = Some(ModelCallId::new("toolu_1"));
    let second = harness.request("echo", json!({"text": "two"}));
    let mut third = harness.request("echo", json!({"text": "three"}));
    third.principal = other.clone();
    let (one, two, three) = (first.id, second.id, third.id);
    let runtime = &harness.runtime;
    let of_session = runtime.events(EventFilter::session(&harness.principal));
    let of_other = runtime.events(EventFilter::session(&other));
    let of_call = runtime.events(EventFilter::call(two));
    let outcomes = runtime.batch(vec![first, second, third]).await;
    assert!(outcomes.iter().all(|outcome| outcome.succeeded()));
    drop(harness);

    let calls = |told: &CollectedEvents| {
        let mut calls: Vec<CallId> = told.kinds.keys().copied().collect();
        calls.sort();
        calls
    };
    let told = CollectedEvents::rest_of(of_session).await;
    assert_eq!(calls(&told), [one, two]);
    for observed in &told.live {
        let origin = &observed.origin;
        assert_eq!(origin.principal.session.as_str(), "session");
        let provider = origin.model_call.as_ref().map(ModelCallId::as_str);
        let expected = (observed.happened.call == one).then_some("toolu_1");
        assert_eq!(provider, expected);
        if let CallEvent::Opened { workspace } = &observed.happened.event {
            assert_eq!(origin.workspace, *workspace);
        }
    }
    assert_eq!(calls(&CollectedEvents::rest_of(of_other).await), [three]);
    assert_eq!(calls(&CollectedEvents::rest_of(of_call).await), [two]);
}

#[tokio::test(start_paused = true)]
async fn what_only_shows_a_call_at_work_is_counted_when_it_is_dropped() {
    let harness = harness();
    let filter = EventFilter::host().only_live();
    let (slow, all) = (
        harness.runtime.events_held(filter.clone(), 4),
        harness.runtime.events(filter),
    );
    harness
        .succeed("count", json!({"to": 40, "pause_ms": 60}))
        .await;
    drop(harness);
    let all = CollectedEvents::rest_of(all).await;
    let slow = CollectedEvents::rest_of(slow).await;
    assert!(all.live.len() > 10, "{}", all.live.len());
    assert_eq!((slow.live.len(), slow.from_record), (3, 0));
    assert_eq!(slow.missed.live, all.live.len() as u64 - 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_found_no_room_is_read_from_the_record_while_its_call_waits() {
    let person = ScriptedApprover::always(ScriptedAnswer::NeverAnswer);
    let harness = Harness::memory()
        .tools(sample::all())
        .policy(FixedPolicy::ask_all())
        .person(&person)
        .build();
    let mut events = harness.runtime.events_held(EventFilter::host(), 1);
    let request = harness.request("echo", json!({"text": "hello"}));
    let (call, runtime) = (request.id, harness.runtime.clone());
    let waits = tokio::spawn(async move { runtime.call(request).await });
    let mut told = CollectedEvents::default();
    let asked = async {
        while !told
            .kinds
            .get(&call)
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "approval_asked"))
        {
            told.add(events.next().await.unwrap());
        }
    };
    tokio::time::timeout(Duration::from_mins(1), asked)
        .await
        .unwrap();
    assert!(told.from_record > 0, "the channel had room");
    assert!(harness.runtime.cancel(call));
    waits.await.unwrap();
    drop(harness);
    while let Some(event) = events.next().await {
        told.add(event);
    }
}

#[tokio::test]
async fn a_receiver_that_is_dropped_is_told_nothing_and_leaves_nothing() {
    let harness = harness();
    let events = harness.runtime.events(EventFilter::call(CallId::new()));
    drop(events);
    harness.succeed("echo", json!({"text": "hello"})).await;
    let listens = harness.runtime.events(EventFilter::host());
    let outcome = harness.succeed("echo", json!({"text": "again"})).await;
    let history = harness.ledger.clone();
    drop(harness);
    let told = CollectedEvents::rest_of(listens).await;
    let recorded = history
        .events(&haft_contract::TenantId::local(), outcome.call)
        .await
        .unwrap();
    assert_eq!(told.kinds.len(), 1);
    assert_eq!(told.kinds[&outcome.call].len(), recorded.len());
}
