//! AU-05: whatever is done to the stored records, `verify` names the first bad one.

use haft_contract::host::{Durability, History as _, Ledger as _, LedgerErrorKind, Verification};
use haft_ledger::SqliteLedger;
use serde_json::json;

use crate::support::{Fixture, NOW, request, started, tenant, whole_call};

/// Five calls of four records each, a checkpoint every six records, closed.
async fn twenty_records() -> Fixture {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.checkpoint_every = 6;
    let (ledger, _) = SqliteLedger::open(options).await.unwrap();
    for index in 0..5 {
        let (_, record) = whole_call(&ledger, "s1", &format!("call {index}")).await;
        record.settled().await.unwrap();
    }
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 20 });
    ledger.close().await.unwrap();
    fixture
}

async fn check(tamper: &'static str, expect: u64) {
    let fixture = twenty_records().await;
    fixture.tamper(tamper).await;
    let ledger = fixture.open().await;
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Broken { sequence, reason } => {
            assert_eq!(sequence, expect, "{tamper}: {reason}");
        }
        intact @ Verification::Intact { .. } => panic!("{tamper}: {intact:?}"),
    }
}

#[tokio::test]
async fn au_05_an_edited_record_is_named() {
    check(
        "UPDATE event SET body = replace(body, 'call 2', 'call 9') WHERE sequence = 9",
        9,
    )
    .await;
    check("UPDATE event SET at = at + 1 WHERE sequence = 3", 3).await;
    check("UPDATE event SET kind = 'admitted' WHERE sequence = 20", 20).await;
}

#[tokio::test]
async fn au_05_a_deleted_record_is_named() {
    check("DELETE FROM event WHERE sequence = 7", 7).await;
    check("DELETE FROM event WHERE sequence = 1", 1).await;
}

#[tokio::test]
async fn au_05_reordered_records_are_named() {
    check(
        "UPDATE event SET sequence = -1 WHERE sequence = 5;
         UPDATE event SET sequence = 5 WHERE sequence = 6;
         UPDATE event SET sequence = 6 WHERE sequence = -1",
        5,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_truncated_tail_is_named() {
    check("DELETE FROM event WHERE sequence > 16", 17).await;
    // The signed end goes too, but a checkpoint remembers.
    check(
        "DELETE FROM event WHERE sequence > 16; DELETE FROM chain",
        17,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_forged_end_is_named_and_nothing_is_appended_to_it() {
    let forge = "DELETE FROM event WHERE sequence > 16; DELETE FROM checkpoint;
        UPDATE chain SET sequence = 16, hash = (SELECT hash FROM event WHERE sequence = 16)";
    check(forge, 16).await;
    let fixture = twenty_records().await;
    fixture.tamper(forge).await;
    let ledger = fixture.open().await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let refused = record
        .append(vec![started(asked.id)], Durability::Durable)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::Unavailable);
}

#[tokio::test]
async fn au_05_a_second_chain_beside_the_first_is_named() {
    check(
        "DROP INDEX event_by_sequence;
         INSERT INTO event (tenant, sequence, call, at, kind, body, hash)
         SELECT tenant, sequence, call, at, kind, body || ' ', hash FROM event WHERE sequence = 14",
        14,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_list_that_disagrees_with_the_records_is_named() {
    check("UPDATE call SET terminal = 'failed' WHERE position = 2", 8).await;
    check("UPDATE call SET user = 'mallory' WHERE position = 1", 1).await;
    check("DELETE FROM call WHERE position = 3", 9).await;
}
