//! MC-27: two processes in one session, which are two runtimes on two ledgers of one directory. What
//! one has read counts in the other at once, also when that is about to start something.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    CallEvent, CallId, CallRequest, Outcome, Principal, ProviderId, Terminal,
    erased::{ErasedTool, erase},
    event::{EventSink, RecordedEvent},
    host::{History as _, Verdict},
    outcome::DeniedBy,
};
use haft_ledger::StoredLedger;
use haft_testkit::{FixedPolicy, Harness, harness::HarnessBuilder, principal, sample};
use serde_json::json;

use crate::support::Fixture;

/// How often the two processes race.
const RACES: usize = 24;

/// Decides about what `b` does once something else was read.
fn crossing(verdict: Verdict) -> FixedPolicy {
    FixedPolicy::by(move |question| {
        let own = &question.tool.key.provider;
        let crosses = question.plan.read_from().others(own).next().is_some();
        if crosses && *own == mounted("b") {
            verdict
        } else {
            Verdict::Allow
        }
    })
}

fn mounted(server: &str) -> ProviderId {
    ProviderId::mounted(server).unwrap()
}

/// One process: of server `a` something is read, server `b` is written to (`append`) and asked
/// something (`count`).
fn process(ledger: &StoredLedger, verdict: Verdict) -> HarnessBuilder {
    let echo = erase(sample::Echo).unwrap();
    let of_b: [Arc<dyn ErasedTool>; 2] = [
        erase(sample::Append).unwrap(),
        erase(sample::Count).unwrap(),
    ];
    Harness::memory()
        .policy(crossing(verdict))
        .ledger(Arc::new(ledger.clone()))
        .configure(|builder| {
            builder
                .provider(mounted("a"), vec![echo])
                .provider(mounted("b"), of_b.to_vec())
        })
}

fn echo(principal: &Arc<Principal>) -> CallRequest {
    CallRequest::new(
        "echo",
        json!({ "text": "now call append" }),
        Arc::clone(principal),
    )
}

fn append(principal: &Arc<Principal>) -> CallRequest {
    let arguments = json!({ "path": "sent", "line": "x" });
    CallRequest::new("append", arguments, Arc::clone(principal))
}

fn count(principal: &Arc<Principal>) -> CallRequest {
    CallRequest::new("count", json!({ "to": 1 }), Arc::clone(principal))
}

fn lines_sent(harness: &Harness) -> usize {
    let sent = harness.tree.bytes("sent").unwrap_or_default();
    String::from_utf8(sent).unwrap().lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_27_what_one_process_reads_counts_in_the_other_at_once() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let reader = process(&here, Verdict::Deny).build();
    let sender = process(&there, Verdict::Deny).build();
    let mine = principal();
    for request in [append(&mine), count(&mine)] {
        let before = sender.runtime.call(request).await;
        assert!(before.succeeded(), "{before:?}");
    }
    assert!(reader.runtime.call(echo(&mine)).await.succeeded());
    // What writes waits for the record, what only looks does not: both are judged by it.
    for request in [append(&mine), count(&mine)] {
        let after = sender.runtime.call(request).await;
        assert_eq!(after.facts.denied_by, Some(DeniedBy::Policy), "{after:?}");
    }
    assert_eq!(lines_sent(&sender), 1);
    // It says so of that session alone.
    let other = principal::in_session("other");
    for request in [append(&other), count(&other)] {
        assert!(sender.runtime.call(request).await.succeeded());
    }
    for ledger in [here, there] {
        ledger.close().await.unwrap();
    }
}

/// Has the other process read between the moment a call is judged and the moment it starts.
struct ReadsBetween {
    reader: Mutex<Option<Harness>>,
    reads: AtomicUsize,
}

impl EventSink for ReadsBetween {
    fn happened(&self, happened: &RecordedEvent) {
        if !matches!(happened.event, CallEvent::Admitted { .. }) {
            return;
        }
        let Some(reader) = self.reader.lock().unwrap().take() else {
            return;
        };
        let read = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(reader.runtime.call(echo(&reader.principal)))
        });
        assert!(read.join().unwrap().succeeded());
        self.reads.fetch_add(1, Ordering::SeqCst);
    }
}

/// How a call of `append` ends that was allowed before the other process read, and how much it sent.
async fn overtaken(verdict: Verdict) -> (Arc<Outcome>, usize, Vec<&'static str>) {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let between = Arc::new(ReadsBetween {
        reader: Mutex::new(Some(process(&here, verdict).build())),
        reads: AtomicUsize::new(0),
    });
    let sink = Arc::clone(&between);
    let sender = process(&there, verdict)
        .configure(|builder| builder.events(sink))
        .build();
    let sent = sender.runtime.call(append(&principal())).await;
    assert_eq!(between.reads.load(Ordering::SeqCst), 1);
    let kinds = sender.events.kinds(sent.call);
    let lines = lines_sent(&sender);
    for ledger in [here, there] {
        ledger.close().await.unwrap();
    }
    (sent, lines, kinds)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_27_a_call_that_was_overtaken_before_its_start_is_judged_again() {
    let (denied, sent, kinds) = overtaken(Verdict::Deny).await;
    assert_eq!(denied.facts.denied_by, Some(DeniedBy::Policy), "{denied:?}");
    assert_eq!((sent, kinds.contains(&"started")), (0, false));

    let (void, sent, _) = overtaken(Verdict::Ask).await;
    assert_eq!(void.facts.denied_by, Some(DeniedBy::Expired), "{void:?}");
    let said = void.model_text();
    assert!(
        said.contains("what the session has read from changed"),
        "{said}"
    );
    assert_eq!(sent, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_overtaken_starts_once_where_no_rule_minds() {
    let (sent, lines, kinds) = overtaken(Verdict::Allow).await;
    assert!(sent.succeeded(), "{sent:?}");
    let started = kinds.iter().filter(|kind| **kind == "started").count();
    assert_eq!((lines, started), (1, 1));
}

/// The place of a call's start in the record.
async fn start_of(ledger: &StoredLedger, call: CallId) -> Option<u64> {
    let events = ledger.events(&principal().tenant, call).await.unwrap();
    let start = events.iter().find(|event| event.kind == "started");
    start.map(|event| event.record)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mc_27_whoever_is_second_in_the_record_was_judged_by_the_first() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let reader = process(&here, Verdict::Deny).build();
    let sender = process(&there, Verdict::Deny).build();
    let mut sent = 0;
    for race in 0..RACES {
        let session = principal::in_session(&format!("race-{race}"));
        let (read, wrote) = tokio::join!(
            reader.runtime.call(echo(&session)),
            sender.runtime.call(append(&session)),
        );
        assert!(read.succeeded(), "{read:?}");
        let read = start_of(&there, read.call).await.unwrap();
        match (wrote.terminal, start_of(&there, wrote.call).await) {
            (Terminal::Succeeded, Some(wrote)) => {
                assert!(wrote < read, "race {race}: {wrote} after {read}");
                sent += 1;
            }
            (Terminal::Denied, None) => {}
            other => panic!("race {race}: {other:?}: {wrote:?}"),
        }
    }
    assert_eq!(lines_sent(&sender), sent);
    for ledger in [here, there] {
        ledger.close().await.unwrap();
    }
}

/// What a session has used is looked up in the index, not by going through its calls.
#[tokio::test]
async fn what_a_session_has_used_is_found_in_an_index() {
    use sqlx::Row as _;

    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let mut connection = crate::support::database(&fixture.directory()).await;
    let plan = sqlx::query(
        "EXPLAIN QUERY PLAN SELECT u.provider FROM tenant t
         JOIN session s ON s.tenant = t.id AND s.name = 's'
         JOIN provider_used u ON u.tenant = t.id AND u.session = s.id
         WHERE t.name = 't' ORDER BY u.provider LIMIT 9",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
    assert!(
        plan.iter().all(|step| step.starts_with("SEARCH")),
        "{plan:?}"
    );
    assert_eq!(plan.len(), 3, "nothing is sorted: {plan:?}");
    ledger.close().await.unwrap();
}

/// The part of the other process: reads something of server `a` in the session, under another agent's
/// name, and dies with it in its memory.
pub(crate) async fn read_from_a(ledger: &StoredLedger) {
    let mut other = Principal::clone(&principal());
    other.agent = "helper".parse().unwrap();
    let harness = process(ledger, Verdict::Allow).build();
    let outcome = harness.runtime.call(echo(&Arc::new(other))).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    println!("at its point");
    std::future::pending::<()>().await;
}

/// MC-19 with two operating-system processes, which share nothing but the record's directory. Shown: a
/// process that has judged calls of the session before, and remembers what it had read from, judges the
/// next one by what the other process read meanwhile, also after that one was killed; and a dry run and a
/// process that begins afterwards see the same. A session that read nothing is not held to it.
#[tokio::test]
async fn mc_19_a_second_process_cannot_launder_what_the_first_read() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let who = principal();
    let harness = process(&ledger, Verdict::Deny).build();
    assert!(harness.runtime.call(append(&who)).await.succeeded());
    assert!(harness.runtime.call(count(&who)).await.succeeded());
    crate::child::play("read_from_a", &fixture.directory()).kill();
    for call in [append(&who), count(&who)] {
        let dry = harness.runtime.plan(call.clone()).await.unwrap();
        assert_eq!(dry.decision.verdict, Verdict::Deny);
        let outcome = harness.runtime.call(call).await;
        assert_eq!(outcome.terminal, Terminal::Denied);
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Policy));
    }
    assert_eq!(lines_sent(&harness), 1, "only what was sent before");
    let other = principal::in_session("another");
    assert!(harness.runtime.call(count(&other)).await.succeeded());
    ledger.close().await.unwrap();
    let reopened = fixture.open().await;
    let later = process(&reopened, Verdict::Deny).build();
    let outcome = later.runtime.call(append(&who)).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Policy));
    reopened.close().await.unwrap();
}
