//! AU-07 and promise 3: after `kill -9` at any point the next start accounts for every call, once.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use haft_contract::{
    CallId, Terminal,
    host::{Durability, History as _, Ledger as _, StoredCall, Verification},
};
use haft_ledger::{Recovery, StoredLedger};
use serde_json::json;

use crate::{
    child::{self, CALLS},
    engine::{EngineFixture, assert_intact, calls},
    postgres::PostgresFixture,
    support::{Fixture, NOW, request, settled, started, tenant, writes},
};

/// Kills a process at a point; returns what the next start finds.
async fn after_kill(point: &str) -> (Vec<StoredCall>, Recovery) {
    let fixture = Fixture::new();
    child::play(point, &fixture.directory()).kill();
    let after = next_start(&fixture, point).await;
    let locks = fs::read_dir(fixture.directory().join("writers")).unwrap();
    assert_eq!(locks.count(), 1, "{point}");
    after
}

/// Opens the record as the next process does: no call is open, the chains are whole, and another start
/// finds nothing left to do.
async fn next_start(fixture: &impl EngineFixture, context: &str) -> (Vec<StoredCall>, Recovery) {
    let (ledger, recovery) = fixture.recover().await;
    let found = calls(&ledger).await;
    assert!(
        found.iter().all(|call| call.terminal.is_some()),
        "{context}"
    );
    assert!(recovery.lost.is_empty(), "{context}: {:?}", recovery.lost);
    assert_intact(&ledger, context).await;
    ledger.close().await.unwrap();
    let (again, second) = fixture.recover().await;
    assert!(second.is_empty(), "{context}: {second:?}");
    assert_eq!(calls(&again).await, found, "{context}");
    again.close().await.unwrap();
    assert_eq!(
        fixture.number("SELECT count(*) FROM writer").await,
        1,
        "{context}"
    );
    assert_eq!(
        fixture.number("SELECT count(*) FROM open_call").await,
        0,
        "{context}"
    );
    (found, recovery)
}

#[tokio::test]
async fn a_call_that_never_started_is_cancelled() {
    for point in ["opened", "planned"] {
        let (found, recovery) = after_kill(point).await;
        assert_eq!(found[0].terminal, Some(Terminal::Cancelled), "{point}");
        assert_eq!(recovery.never_started, [found[0].id], "{point}");
        assert!(recovery.rerunnable.is_empty(), "{point}");
    }
}

#[tokio::test]
async fn au_07_a_started_call_is_unknown_because_its_intent_was_durable() {
    let (found, recovery) = after_kill("started").await;
    assert_eq!(found[0].terminal, Some(Terminal::Unknown));
    assert_eq!(recovery.settled_unknown, [found[0].id]);
    assert!(recovery.rerunnable.is_empty());
}

#[tokio::test]
async fn a_started_call_that_only_read_can_be_asked_for_again() {
    let (found, recovery) = after_kill("started_reading").await;
    assert_eq!(found[0].terminal, Some(Terminal::Unknown));
    let again = &recovery.rerunnable[0];
    assert_eq!(again.id, found[0].id);
    assert_eq!(again.tool, "sample");
    assert_eq!(again.principal.session.as_str(), "s1");
}

#[tokio::test]
async fn a_settled_call_stays_as_it_was_settled() {
    let (found, recovery) = after_kill("settled").await;
    assert_eq!(found[0].terminal, Some(Terminal::Succeeded));
    assert!(recovery.is_empty());
}

#[tokio::test]
async fn what_was_only_queued_is_there_or_not_but_never_open() {
    let (found, _) = after_kill("accepted").await;
    assert!(found.len() <= 1);
    let (found, _) = after_kill("settling").await;
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn calls_of_a_living_process_are_left_alone() {
    let fixture = Fixture::new();
    let child = child::play("started", &fixture.directory());
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.is_empty());
    assert_eq!(calls(&ledger).await[0].terminal, None);
    child.kill();
    let (_second, recovery) = fixture.recover().await;
    assert_eq!(recovery.settled_unknown.len(), 1);
}

#[tokio::test]
async fn processes_that_append_at_once_keep_a_chain_each() {
    let fixture = Fixture::new();
    let children: Vec<_> = (0..4)
        .map(|_| child::start("append", &fixture.directory(), None))
        .collect();
    for child in children {
        assert!(child.ended_well());
    }
    let ledger = fixture.open().await;
    assert_eq!(calls(&ledger).await.len(), 4 * CALLS);
    let records = 2 * 4 * CALLS as u64;
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records });
    let sessions = ledger.sessions(&tenant(), &[], 10).await.unwrap();
    assert_eq!(sessions[0].calls, 4 * CALLS as u64);
}

/// At which points a process dies, one after the other on one record, and what becomes of its call.
/// In between it dies at random moments while several of its calls are on their way.
const POINTS: [(&str, &[Terminal]); 9] = [
    ("accepted", &[Terminal::Cancelled]),
    ("opened", &[Terminal::Cancelled]),
    ("planned", &[Terminal::Cancelled]),
    ("asked", &[Terminal::Cancelled]),
    ("approved", &[Terminal::Cancelled]),
    ("started", &[Terminal::Unknown]),
    ("started_reading", &[Terminal::Unknown]),
    ("settling", &[Terminal::Succeeded, Terminal::Unknown]),
    ("settled", &[Terminal::Succeeded]),
];

/// How many deaths one record has: each point, and as many random moments.
const DEATHS_A_RECORD: usize = 2 * POINTS.len();

/// How many calls of a process are on their way at once when it dies at a random moment.
const AT_ONCE: usize = 6;

/// A process that works dies when it has begun or ended so many of them at most, at whatever the others
/// are at.
const MOST_MARKS: usize = 24;

/// A file for each call: before it changes something, and after its end was durable.
const BEGUN: &str = "begun";
const ENDED: &str = "ended";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: 18 processes that die, one after the other"]
async fn au_07_kill_9_at_every_point_on_sqlite() {
    kill_at_every_point::<Fixture>(DEATHS_A_RECORD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs PostgreSQL"]
async fn au_07_kill_9_at_every_point_on_postgresql() {
    kill_at_every_point::<PostgresFixture>(DEATHS_A_RECORD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 200 processes that die, one after the other"]
async fn soak_kill_9_at_every_point_on_sqlite() {
    kill_at_every_point::<Fixture>(200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 200 processes that die, one after the other, on PostgreSQL"]
async fn soak_kill_9_at_every_point_on_postgresql() {
    kill_at_every_point::<PostgresFixture>(200).await;
}

/// What became of the calls of processes that died.
#[derive(Debug, Default)]
struct Tally {
    deaths: usize,
    succeeded: usize,
    unknown: usize,
    never_started: usize,
    effects: usize,
}

async fn kill_at_every_point<F: EngineFixture>(rounds: usize) {
    let mut sum = BTreeMap::<&str, Tally>::new();
    let mut fixture = F::empty().await;
    let mut known = BTreeMap::new();
    for round in 0..rounds {
        let number = round % DEATHS_A_RECORD;
        if round > 0 && number == 0 {
            fixture = fixture.another().await;
            known.clear();
        }
        let (point, ends) = match POINTS.get(number / 2) {
            Some(point) if number.is_multiple_of(2) => *point,
            _ => ("at work", &[] as &[_]),
        };
        let effects = tempfile::tempdir().unwrap();
        if point == "at work" {
            let process = fixture.play(&format!("work {}", effects.path().display()));
            let marks = random_number(MOST_MARKS);
            let is_far = || fs::read_dir(effects.path()).unwrap().count() >= marks;
            haft_testkit::eventually("it works", is_far).await;
            process.kill();
        } else {
            fixture.play(point).kill();
        }
        let context = format!("round {round}, {point}");
        let (found, recovery) = next_start(&fixture, &context).await;
        let new = found.iter().filter(|call| !known.contains_key(&call.id));
        let new: Vec<&StoredCall> = new.collect();
        let tally = sum.entry(point).or_default();
        tally.deaths += 1;
        check_calls(&new, &recovery, effects.path(), &context, tally);
        if point != "at work" {
            // What was only taken into memory may be on no record.
            let is_enough = new.len() == 1 || (new.is_empty() && point == "accepted");
            assert!(is_enough, "{context}: {new:?}");
            let is_end = |call: &&StoredCall| ends.contains(&call.terminal.unwrap());
            assert!(new.iter().all(is_end), "{context}: {new:?}");
        }
        // What was settled once stays so.
        let all: BTreeMap<CallId, StoredCall> =
            found.into_iter().map(|call| (call.id, call)).collect();
        for (id, call) in &known {
            assert_eq!(all.get(id), Some(call), "{context}");
        }
        known = all;
    }
    for (point, tally) in &sum {
        println!("{point}: {tally:?}");
    }
    // Those that died at work had something on its way each time.
    let at_work = &sum["at work"];
    assert!(at_work.effects >= at_work.deaths, "{at_work:?}");
}

/// Compares what the record says of a dead process's calls with what the world saw of them.
fn check_calls(
    calls: &[&StoredCall],
    recovery: &Recovery,
    effects: &Path,
    context: &str,
    tally: &mut Tally,
) {
    let (mut unknown, mut never_started) = (Vec::new(), Vec::new());
    for call in calls {
        let id = call.id;
        let has_begun = mark(effects, id, BEGUN).exists();
        let has_ended = mark(effects, id, ENDED).exists();
        tally.effects += usize::from(has_begun);
        match call.terminal.unwrap() {
            Terminal::Succeeded => tally.succeeded += 1,
            Terminal::Unknown => unknown.push(id),
            Terminal::Cancelled => {
                assert!(!has_begun, "{context}: {id} took effect and never started");
                never_started.push(id);
            }
            other => panic!("{context}: {id} ended {other}"),
        }
        let is_as_told = !has_ended || call.terminal == Some(Terminal::Succeeded);
        assert!(
            is_as_told,
            "{context}: {id} ended, and the record forgot it"
        );
    }
    for effect in fs::read_dir(effects).unwrap() {
        let name = effect.unwrap().file_name().into_string().unwrap();
        let is_recorded = calls
            .iter()
            .any(|call| name.starts_with(&call.id.to_string()));
        assert!(is_recorded, "{context}: {name} is on no record");
    }
    tally.unknown += unknown.len();
    tally.never_started += never_started.len();
    // Each of them was settled by this start, and nothing else was.
    let sorted = |ids: &[CallId]| {
        let mut ids = ids.to_vec();
        ids.sort();
        ids
    };
    assert_eq!(
        sorted(&recovery.settled_unknown),
        sorted(&unknown),
        "{context}"
    );
    assert_eq!(
        sorted(&recovery.never_started),
        sorted(&never_started),
        "{context}"
    );
}

fn mark(effects: &Path, call: CallId, what: &str) -> PathBuf {
    effects.join(format!("{call}.{what}"))
}

/// Anything from 1 to the most.
fn random_number(most: usize) -> usize {
    let last = uuid::Uuid::now_v7().as_bytes()[15];
    1 + usize::from(last) % most
}

/// The part of a process that is killed while it works.
pub(crate) async fn work(ledger: &StoredLedger, effects: &str) {
    let mut at_once = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (ledger, effects) = (ledger.clone(), PathBuf::from(effects));
        at_once.spawn(async move {
            loop {
                work_once(&ledger, &effects).await;
            }
        });
    }
    println!("at its point");
    at_once.join_all().await;
}

async fn work_once(ledger: &StoredLedger, effects: &Path) {
    let asked = request("work", "sample", json!({}));
    let id = asked.id;
    let record = ledger.open(&asked, NOW).await.unwrap();
    for event in [writes(id), started(id)] {
        record
            .append(vec![event], Durability::Durable)
            .await
            .unwrap();
    }
    fs::File::create_new(mark(effects, id, BEGUN)).unwrap();
    record.settle(vec![settled(id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    fs::File::create_new(mark(effects, id, ENDED)).unwrap();
}
