//! The ledger suite on the ledger in memory, and the switches tests use on it.

use haft_contract::{
    CallRequest,
    host::{Durability, History, Ledger, LedgerErrorKind},
};
use haft_testkit::{MemoryLedger, clock, principal, suite::ledger::MemoryLedgerFixture};
use serde_json::json;

haft_testkit::ledger_suite!(MemoryLedgerFixture::new());

#[tokio::test]
async fn a_store_that_is_down_says_so_everywhere() {
    let ledger = MemoryLedger::new();
    let request = CallRequest::new("echo", json!({}), principal());
    let record = ledger.open(&request, clock::START).await.unwrap();
    ledger.set_down(true);
    let unavailable = LedgerErrorKind::Unavailable;
    let opened = ledger.open(&request, clock::START).await;
    assert_eq!(opened.err().map(|error| error.kind()), Some(unavailable));
    let appended = record.append(Vec::new(), Durability::Durable).await;
    assert_eq!(appended.unwrap_err().kind(), unavailable);
    record.settle(Vec::new());
    assert_eq!(record.settled().await.unwrap_err().kind(), unavailable);
    assert_eq!(ledger.flush().await.unwrap_err().kind(), unavailable);
    let verified = ledger.verify(&principal().tenant).await;
    assert_eq!(verified.unwrap_err().kind(), unavailable);
    ledger.set_down(false);
    assert_eq!(ledger.flush().await.ok(), Some(()));
}

#[tokio::test]
async fn what_was_only_queued_is_lost_in_a_crash() {
    let ledger = MemoryLedger::new();
    let request = CallRequest::new("echo", json!({}), principal());
    let _record = ledger.open(&request, clock::START).await.unwrap();
    assert_eq!(ledger.durable_commits(), 0);
    let after = ledger.after_crash();
    let call = after.call(&principal().tenant, request.id).await.unwrap();
    assert_eq!(call, None);
}
