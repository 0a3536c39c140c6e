//! How calls wait for answers: whoever gives them and whatever else ends the waiting.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    PlanDigest,
    host::{ApprovalId, ApprovalQuestion, ApprovalState, Clock as _, Ledger as _, LedgerErrorKind},
};
use haft_ledger::StoredLedger;
use haft_testkit::TestClock;

use crate::{
    child,
    support::{Fixture, NOW, approve, database, principal, question, tenant},
};

/// How long something that another process does may take to be seen.
const SOON: Duration = haft_testkit::PATIENCE;

/// How many calls wait at once.
const WAITING: usize = 10_000;

/// How many sessions they belong to.
const SESSIONS: usize = 100;

/// What each of them may cost.
const MAX_BYTES_EACH: usize = 5_000;

#[tokio::test]
async fn an_answer_from_another_process_reaches_who_waits() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    for number in 1..=3 {
        let asked = here.approvals().ask(question("s1", number)).await.unwrap();
        let store = here.approvals();
        let id = asked.id;
        let waits = tokio::spawn(async move { store.answered(&tenant(), id).await });
        tokio::task::yield_now().await;
        let given = approve(&there, &asked).await.unwrap();
        let told = tokio::time::timeout(SOON, waits).await.unwrap().unwrap();
        assert_eq!(told.unwrap().state, given.state);
    }
}

#[tokio::test]
async fn whoever_waits_is_told_that_the_question_lapsed() {
    let fixture = Fixture::new();
    let clock = TestClock::at(NOW);
    let mut options = fixture.options();
    options.clock = Arc::new(clock.clone());
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let store = ledger.approvals();
    let asked = store.ask(question("s1", 1)).await.unwrap();
    let id = asked.id;
    let waits = tokio::spawn(async move { store.answered(&tenant(), id).await });
    tokio::task::yield_now().await;
    clock.advance(asked.expires.since(clock.now()));
    let told = tokio::time::timeout(SOON, waits).await.unwrap().unwrap();
    assert_eq!(told.unwrap().state, ApprovalState::Lapsed);
}

#[tokio::test]
async fn whoever_waits_is_told_that_the_record_is_closed() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let store = ledger.approvals();
    let id = store.ask(question("s1", 1)).await.unwrap().id;
    let waits = tokio::spawn(async move { store.answered(&tenant(), id).await });
    tokio::task::yield_now().await;
    ledger.close().await.unwrap();
    let told = tokio::time::timeout(SOON, waits).await.unwrap().unwrap();
    assert_eq!(told.unwrap_err().kind(), LedgerErrorKind::Unavailable);
}

/// Ten thousand calls that wait for a person cost little memory, and each is told. They wait in
/// another process, so that nothing that was freed before is used again unnoticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ap_13_ten_thousand_waiting_cost_little() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asking: Vec<_> = (0..WAITING)
        .map(|number| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&number.to_be_bytes());
                let asked = ApprovalQuestion {
                    digest: PlanDigest(digest),
                    most_open: WAITING / SESSIONS,
                    ..question(&session(number % SESSIONS), 0)
                };
                ledger.approvals().ask(asked).await.unwrap();
            })
        })
        .collect();
    for asked in asking {
        asked.await.unwrap();
    }
    let closed = ledger.approvals().ask(question("closed", 0)).await.unwrap();
    approve(&ledger, &closed).await.unwrap();
    let child = child::play("wait", &fixture.directory());
    let store = ledger.approvals();
    for number in 0..SESSIONS {
        let ended = principal(&session(number)).session.clone();
        store.end_session(&tenant(), &ended, NOW).await.unwrap();
    }
    assert!(child.ended_well());
}

/// The part of the process that waits: for every question there is.
pub(crate) async fn wait(ledger: &StoredLedger, directory: &Path) {
    let mut connection = database(directory).await;
    let ids: Vec<String> = sqlx::query_scalar("SELECT id FROM approval ORDER BY state")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    // The one that is approved comes first.
    let (closed, ids) = ids.split_first().unwrap();
    assert_eq!(ids.len(), WAITING);
    let tenant = Arc::new(tenant());
    let before = resident_bytes();
    let mut waits = Vec::with_capacity(WAITING);
    for id in ids {
        let (store, tenant) = (ledger.approvals(), Arc::clone(&tenant));
        let id = ApprovalId::parse(id).unwrap();
        let wait = async move { store.answered(&tenant, id).await.unwrap().state };
        waits.push(tokio::spawn(wait));
    }
    tokio::task::yield_now().await;
    // Looks are taken in turn and each of them takes two, so a third and fourth of somebody who
    // came later come after all of theirs.
    let closed = ApprovalId::parse(closed).unwrap();
    for _ in 0..4 {
        let store = ledger.approvals();
        let answered = store.answered(&tenant, closed).await.unwrap();
        assert!(matches!(answered.state, ApprovalState::Approved { .. }));
    }
    let each = resident_bytes().saturating_sub(before) / WAITING;
    println!("{each} bytes for each of {WAITING} that wait");
    assert!(each < MAX_BYTES_EACH, "{each} bytes each");
    println!("at its point");
    for wait in waits {
        let state = tokio::time::timeout(SOON, wait).await.unwrap().unwrap();
        assert_eq!(state, ApprovalState::Withdrawn);
    }
}

fn session(number: usize) -> String {
    format!("s{number}")
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}
