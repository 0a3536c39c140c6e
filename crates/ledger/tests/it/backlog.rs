//! What waits to be written is bounded in bytes: when the disk does not keep up, opening a call
//! waits, and nothing that was taken in is lost.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Terminal,
    host::{CallQuery, CallRecord, History as _, Ledger as _, LedgerErrorKind, Verification},
};
use haft_ledger::StoredLedger;
use haft_testkit::{Harness, sample::Echo};
use serde_json::json;
use sqlx::SqliteConnection;
use tokio_util::sync::CancellationToken;

use crate::support::{Fixture, NOW, database, request, settled, tenant};

const SPACE: usize = 256 * 1024;
const OUTPUT: usize = 20 * 1024;

/// Longer than any test: a wait that ends has ended for another reason.
const FOREVER: Duration = Duration::from_hours(1);

/// Keeps the ledger's writer from writing, as a disk does that is too slow.
async fn hold_back(fixture: &Fixture) -> SqliteConnection {
    let mut connection = database(&fixture.directory()).await;
    execute(&mut connection, "BEGIN IMMEDIATE").await;
    connection
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(connection).await.unwrap();
}

async fn opened(fixture: &Fixture, open_wait: Duration) -> StoredLedger {
    let mut options = fixture.options();
    options.max_queued_bytes = SPACE;
    options.open_wait = open_wait;
    StoredLedger::open(options).await.unwrap().0
}

/// Opens a call if that needs no waiting.
async fn open_now(ledger: &StoredLedger) -> Option<()> {
    let asked = request("s1", "sample", json!({}));
    let record: Box<dyn CallRecord> = tokio::select! {
        biased;
        record = ledger.open(&asked, NOW) => record.unwrap(),
        () = std::future::ready(()) => return None,
    };
    let output = "x".repeat(OUTPUT);
    record.settle(vec![settled(asked.id, Terminal::Succeeded, &output)]);
    Some(())
}

/// Makes calls with large output until the next one would have to wait.
async fn fill(ledger: &StoredLedger) -> usize {
    let mut calls = 0;
    while open_now(ledger).await.is_some() {
        calls += 1;
    }
    calls
}

async fn recorded(ledger: &StoredLedger) -> usize {
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
    let query = CallQuery {
        limit: 10_000,
        ..CallQuery::default()
    };
    let calls = ledger.calls(&tenant(), &query).await.unwrap();
    assert!(
        calls
            .iter()
            .all(|call| call.terminal == Some(Terminal::Succeeded))
    );
    calls.len()
}

#[tokio::test]
async fn a_full_queue_takes_no_more_calls_until_something_is_written() {
    let fixture = Fixture::new();
    let ledger = opened(&fixture, Duration::from_millis(50)).await;
    let mut held = hold_back(&fixture).await;
    let calls = fill(&ledger).await;
    assert!(calls > 0);
    assert!(
        calls * OUTPUT <= SPACE + OUTPUT,
        "{calls} calls of {OUTPUT} bytes wait in a queue of {SPACE}"
    );
    let asked = request("s1", "sample", json!({}));
    let refused = ledger.open(&asked, NOW).await.err().unwrap();
    assert_eq!(refused.kind(), LedgerErrorKind::Unavailable);
    execute(&mut held, "ROLLBACK").await;
    ledger.flush().await.unwrap();
    assert_eq!(recorded(&ledger).await, calls);
    // Everything that was given back can be used again, no more and no less.
    let mut held = hold_back(&fixture).await;
    assert_eq!(fill(&ledger).await, calls);
    execute(&mut held, "ROLLBACK").await;
    ledger.flush().await.unwrap();
    assert_eq!(recorded(&ledger).await, calls * 2);
}

#[tokio::test]
async fn a_call_that_waits_for_space_is_opened_when_there_is_some() {
    let fixture = Fixture::new();
    let ledger = opened(&fixture, FOREVER).await;
    let mut held = hold_back(&fixture).await;
    let calls = fill(&ledger).await;
    let waits = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            let asked = request("s1", "sample", json!({}));
            let record = ledger.open(&asked, NOW).await.unwrap();
            record.settle(vec![settled(asked.id, Terminal::Succeeded, "late")]);
            record.settled().await.unwrap();
        }
    });
    execute(&mut held, "ROLLBACK").await;
    waits.await.unwrap();
    assert_eq!(recorded(&ledger).await, calls + 1);
}

#[tokio::test]
async fn a_request_larger_than_the_whole_queue_is_taken_when_it_is_empty() {
    let fixture = Fixture::new();
    let ledger = opened(&fixture, FOREVER).await;
    let asked = request("s1", "sample", json!({"text": "x".repeat(SPACE * 2)}));
    for _ in 0..2 {
        let mut asked = asked.clone();
        asked.id = haft_contract::CallId::new();
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    }
    assert_eq!(recorded(&ledger).await, 2);
}

#[tokio::test]
async fn cancelling_ends_the_wait_for_space() {
    let fixture = Fixture::new();
    let ledger = opened(&fixture, FOREVER).await;
    let harness = Harness::memory()
        .tools(vec![haft_contract::erased::erase(Echo).unwrap()])
        .ledger(Arc::new(ledger.clone()))
        .build();
    let mut held = hold_back(&fixture).await;
    let calls = fill(&ledger).await;
    let token = CancellationToken::new();
    let asked = harness.request("echo", json!({"text": "x"}));
    let call = tokio::spawn({
        let (runtime, token) = (harness.runtime.clone(), token.clone());
        async move { runtime.call_until(asked, token).await }
    });
    token.cancel();
    let outcome = call.await.unwrap();
    assert_eq!(outcome.terminal, Terminal::Cancelled, "{outcome:?}");
    execute(&mut held, "ROLLBACK").await;
    ledger.flush().await.unwrap();
    assert_eq!(recorded(&ledger).await, calls, "it was never opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tiny_queue_slows_many_calls_down_and_refuses_none() {
    const CALLS: usize = 200;
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.max_queued_bytes = 64 * 1024;
    // A machine may stop for seconds; nobody may be refused for being one of many.
    options.open_wait = Duration::from_mins(1);
    let ledger = StoredLedger::open(options).await.unwrap().0;
    let harness = Harness::memory()
        .tools(vec![haft_contract::erased::erase(Echo).unwrap()])
        .ledger(Arc::new(ledger.clone()))
        .build();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let text = format!("{number} {}", "x".repeat(4_096));
            let asked = harness.request("echo", json!({"text": text}));
            let runtime = harness.runtime.clone();
            tokio::spawn(async move { runtime.call(asked).await })
        })
        .collect();
    for call in calls {
        let outcome = call.await.unwrap();
        assert_eq!(outcome.terminal, Terminal::Succeeded, "{outcome:?}");
    }
    assert_eq!(recorded(&ledger).await, CALLS);
}
