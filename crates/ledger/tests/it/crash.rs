//! AU-07 and promise 3: after `kill -9` at any point the next start accounts for every call, once.

use haft_contract::{
    Terminal,
    host::{CallQuery, History as _, StoredCall, Verification},
};
use haft_ledger::{Recovery, SqliteLedger};

use crate::{
    child::{self, CALLS},
    support::{Fixture, tenant},
};

async fn calls(ledger: &SqliteLedger) -> Vec<StoredCall> {
    let query = CallQuery {
        limit: 10_000,
        ..CallQuery::default()
    };
    ledger.calls(&tenant(), &query).await.unwrap()
}

/// Kills a process at a point; returns what the next start finds.
async fn after_kill(point: &str) -> (Vec<StoredCall>, Recovery) {
    let fixture = Fixture::new();
    child::play(point, &fixture.directory()).kill();
    let (ledger, recovery) = fixture.recover().await;
    let found = calls(&ledger).await;
    assert!(found.iter().all(|call| call.terminal.is_some()), "{point}");
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(matches!(verified, Verification::Intact { .. }), "{point}");
    ledger.close().await.unwrap();
    // Never twice: another start finds nothing left to do.
    let (again, second) = fixture.recover().await;
    assert!(second.is_empty(), "{point}");
    assert_eq!(calls(&again).await, found, "{point}");
    assert_eq!(fixture.number("SELECT count(*) FROM owner").await, 1);
    let locks = std::fs::read_dir(fixture.directory().join("owners")).unwrap();
    assert_eq!(locks.count(), 1, "{point}");
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
async fn processes_that_append_at_once_keep_one_chain() {
    let fixture = Fixture::new();
    let children: Vec<_> = (0..4)
        .map(|_| child::start("append", &fixture.directory(), None))
        .collect();
    for child in children {
        assert!(child.ended_well());
    }
    let ledger = fixture.open().await;
    assert_eq!(calls(&ledger).await.len(), 4 * CALLS);
    let records = 4 * 4 * CALLS as u64;
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records });
    let sessions = ledger.sessions(&tenant(), 10).await.unwrap();
    assert_eq!(sessions[0].calls, 4 * CALLS as u64);
}
