//! AU-05 in a long record: it is checked in ranges, several at a time, and what is named is the same as
//! if it were read from the first row to the last.

use std::{sync::Mutex, time::Duration};

use haft_contract::{
    CallEvent, ProviderId, Terminal, ToolKey, ToolName,
    host::{CallQuery, Durability, History as _, Ledger as _, Verification},
};
use haft_ledger::StoredLedger;
use serde_json::json;

use crate::support::{Fixture, NOW, at, request, settled, started, tenant};

/// More calls than three ranges have.
const CALLS: u64 = 13_000;

/// Calls of two writers, one row each, and one that began before them and starts after them.
async fn long_record() -> (Fixture, StoredLedger) {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    // However slow the machine: a call that is open for longer than this has a row more.
    options.open_linger = Duration::from_hours(1);
    let (here, _) = StoredLedger::open(options.clone()).await.unwrap();
    let (there, _) = StoredLedger::open(options).await.unwrap();
    let slow = request("s2", "tool", json!({}));
    let record = here.open(&slow, NOW).await.unwrap();
    let tool = ToolKey::new(
        ProviderId::parse("mcp").unwrap(),
        ToolName::parse("tool").unwrap(),
    );
    let resolved = CallEvent::Resolved { tool };
    record
        .append(vec![at(slow.id, resolved)], Durability::Durable)
        .await
        .unwrap();
    for index in 0..CALLS {
        let ledger = if index % 3 == 0 { &there } else { &here };
        let asked = request("s1", "sample", json!({ "index": index }));
        let call = ledger.open(&asked, NOW).await.unwrap();
        call.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    }
    there.flush().await.unwrap();
    let started = vec![started(slow.id)];
    record.append(started, Durability::Durable).await.unwrap();
    record.settle(vec![settled(slow.id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    there.close().await.unwrap();
    (fixture, here)
}

#[tokio::test(flavor = "multi_thread")]
async fn au_05_the_first_bad_row_of_a_long_record_is_named() {
    let (fixture, ledger) = long_record().await;
    let records = CALLS + 3;
    let reached = Mutex::new(Vec::new());
    let verified = ledger
        .verify_with(&tenant(), &|position, newest| {
            assert_eq!(newest, records);
            reached.lock().unwrap().push(position);
        })
        .await;
    assert_eq!(verified.unwrap(), Verification::Intact { records });
    let reached = reached.into_inner().unwrap();
    assert!(
        reached.is_sorted() && reached.last() == Some(&records),
        "{reached:?}"
    );
    // The last row of a range, the first of the next, and both ends of the record.
    for bad in [
        1, 2, 4_095, 4_096, 4_097, 8_192, 8_193, 12_288, 12_289, records,
    ] {
        for tamper in [
            "at = at + 1",
            "hash = zeroblob(32)",
            "sequence = sequence + 1",
        ] {
            let keep = "CREATE TABLE before AS SELECT * FROM record WHERE position >= ?1";
            let keep = keep.replace("?1", &bad.to_string());
            let change = format!(
                "{keep}; UPDATE record SET {tamper} WHERE position = {bad};
                 UPDATE record SET at = at + 1 WHERE position = {bad} + 4100"
            );
            run(&fixture, change).await;
            match ledger.verify(&tenant()).await.unwrap() {
                Verification::Broken { sequence, .. } => assert_eq!(sequence, bad, "{tamper}"),
                intact @ Verification::Intact { .. } => panic!("{bad} {tamper}: {intact:?}"),
            }
            let back = format!(
                "DELETE FROM record WHERE position >= {bad};
                 INSERT INTO record SELECT * FROM before; DROP TABLE before"
            );
            run(&fixture, back).await;
        }
    }
    // A row is gone: the next of its writer is named.
    run(
        &fixture,
        "DELETE FROM record WHERE position = 8193".to_owned(),
    )
    .await;
    let Verification::Broken { sequence, reason } = ledger.verify(&tenant()).await.unwrap() else {
        panic!("a missing row is not missed");
    };
    assert!(sequence > 8_193 && sequence < 8_193 + 5_000, "{sequence}");
    assert_eq!(reason, "before it, 1 of its writer's rows are missing");
}

/// The tool was named in the first range, and started in the last.
#[tokio::test(flavor = "multi_thread")]
async fn au_05_what_a_call_of_several_ranges_used_is_compared() {
    let (fixture, ledger) = long_record().await;
    let count = "SELECT count(*) FROM provider_used WHERE provider = 'mcp'";
    assert_eq!(fixture.number(count).await, 1);
    fixture.tamper("DELETE FROM provider_used").await;
    let Verification::Broken { reason, .. } = ledger.verify(&tenant()).await.unwrap() else {
        panic!("it is not missed");
    };
    assert!(reason.contains("`mcp`"), "{reason}");
}

/// Several checks at once use all connections that read, and leave enough to others.
#[tokio::test(flavor = "multi_thread")]
async fn several_checks_at_once_and_reads_meanwhile_do_not_fail() {
    let (_fixture, ledger) = long_record().await;
    let mut checks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let ledger = ledger.clone();
        checks.spawn(async move { ledger.verify(&tenant()).await });
    }
    while let Some(verified) = checks.join_next().await {
        let records = CALLS + 3;
        assert_eq!(verified.unwrap().unwrap(), Verification::Intact { records });
        ledger
            .calls(&tenant(), &CallQuery::default())
            .await
            .unwrap();
    }
}

async fn run(fixture: &Fixture, sql: String) {
    fixture.tamper(sql.leak()).await;
}
