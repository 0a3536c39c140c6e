//! AU-05: whatever is done to the stored records, `verify` names the first bad one.

use haft_contract::{
    Access, Arguments, CallEvent, Effects, Terminal, WorkPath,
    host::{Durability, History as _, Ledger as _, LedgerErrorKind, Verification},
};
use haft_ledger::SqliteLedger;
use serde_json::json;

use crate::support::{
    Fixture, NOW, at, planned, request, settled, started, tenant, whole_call, writes,
};

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
    names(&fixture.open().await, tamper, expect).await;
}

/// Tampers with the lists of one record, one way after the other.
async fn check_lists(cases: &[(&'static str, u64)]) {
    let fixture = twenty_records().await;
    let ledger = fixture.open().await;
    fixture
        .tamper(
            "CREATE TABLE calls_before AS SELECT * FROM call;
             CREATE TABLE sessions_before AS SELECT * FROM session",
        )
        .await;
    for (tamper, expect) in cases {
        fixture.tamper(tamper).await;
        names(&ledger, tamper, *expect).await;
        fixture
            .tamper(
                "DELETE FROM call; INSERT INTO call SELECT * FROM calls_before;
                 DELETE FROM session; INSERT INTO session SELECT * FROM sessions_before",
            )
            .await;
        let verified = ledger.verify(&tenant()).await.unwrap();
        assert_eq!(verified, Verification::Intact { records: 20 }, "{tamper}");
    }
}

async fn names(ledger: &SqliteLedger, tamper: &str, expect: u64) {
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

/// Every column that lists show is a fold of the records, so changing one of them shows.
#[tokio::test]
async fn au_05_every_column_of_the_list_is_compared() {
    check_lists(&[
        ("UPDATE call SET session = 's9' WHERE position = 2", 5),
        (
            "UPDATE call SET session_kind = 'cron' WHERE position = 2",
            5,
        ),
        ("UPDATE call SET agent = 'mallory' WHERE position = 2", 5),
        ("UPDATE call SET asked_tool = 'read' WHERE position = 2", 5),
        (
            "UPDATE call SET opened_at = opened_at + 1 WHERE position = 2",
            5,
        ),
        (
            "UPDATE call SET tool = 'builtin/read' WHERE position = 2",
            8,
        ),
        ("UPDATE call SET started_at = NULL WHERE position = 2", 8),
        ("UPDATE call SET read_only = 1 WHERE position = 2", 8),
        (
            "UPDATE call SET settled_at = settled_at + 1 WHERE position = 2",
            8,
        ),
        (
            "UPDATE call SET summary = 'nothing at all' WHERE position = 2",
            8,
        ),
        // The list is in the order of the records.
        ("UPDATE call SET position = 99 WHERE position = 2", 9),
    ])
    .await;
}

#[tokio::test]
async fn au_05_a_listed_call_that_no_record_opened_is_named() {
    check(
        "INSERT INTO call (tenant, id, session, session_kind, user, agent, asked_tool, tool,
             opened_at, read_only, redacted, terminal, settled_at, summary, owner)
         SELECT tenant, zeroblob(16), session, session_kind, user, agent, asked_tool, tool,
             opened_at, read_only, redacted, terminal, settled_at, 'forged', owner
         FROM call WHERE position = 1",
        21,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_list_of_sessions_that_disagrees_with_its_calls_is_named() {
    check_lists(&[
        ("UPDATE session SET calls = 4", 1),
        ("UPDATE session SET last_at = last_at + 1", 1),
        ("UPDATE session SET agent = 'mallory'", 1),
        ("UPDATE session SET kind = 'cron'", 1),
        ("DELETE FROM session", 1),
        (
            "INSERT INTO session SELECT tenant, 's9', kind, agent, first_at, last_at, 1 FROM session",
            21,
        ),
    ])
    .await;
}

#[tokio::test]
async fn au_05_the_list_entry_of_an_open_call_is_compared() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let events = vec![writes(asked.id), started(asked.id)];
    record.append(events, Durability::Durable).await.unwrap();
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 3 });
    fixture
        .tamper("UPDATE call SET summary = 'nothing at all', terminal = 'succeeded'")
        .await;
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Broken { sequence, .. } => assert_eq!(sequence, 3),
        intact @ Verification::Intact { .. } => panic!("{intact:?}"),
    }
}

/// What the list says is folded from the redacted record, whatever was taken out of it or left
/// out as too large, and after a crash too.
#[tokio::test]
async fn au_05_ordinary_records_of_any_shape_are_intact() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let huge = "x".repeat(5 * 1024 * 1024);
    let secret = "DB_PASSWORD='a b c' sk-aaaaaaaaaaaaaaaaaaaaaaaa";
    let text = |text: &str| Arguments::Text(text.to_owned());
    for (tool, arguments, script, output) in [
        ("sample", Arguments::Value(json!({"text": huge})), "ls", "a"),
        ("sample", text("{}"), huge.as_str(), "a"),
        (secret, text(secret), secret, secret),
        (secret, text(r#"{"token": {"a": "b"}}"#), "ls", ""),
    ] {
        let mut asked = request("s1", tool, json!({}));
        asked.arguments = arguments;
        let id = asked.id;
        let record = ledger.open(&asked, NOW).await.unwrap();
        let shell = Access::shell(script.to_owned(), WorkPath::root());
        let events = vec![planned(id, Effects::UNKNOWN, shell)];
        record.append(events, Durability::Queued).await.unwrap();
        record.settle(vec![settled(id, Terminal::Failed, output)]);
        record.settled().await.unwrap();
        let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
        assert_eq!(call.terminal, Some(Terminal::Failed));
    }
    // Left open: the next start settles it.
    let asked = request("s3", secret, json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    record
        .append(vec![started(asked.id)], Durability::Durable)
        .await
        .unwrap();
    ledger.close().await.unwrap();
    let (ledger, recovery) = fixture.recover().await;
    assert_eq!(recovery.settled_unknown, [asked.id]);
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 15 });
}

/// Who asked, and which file was changed, are recorded as they are: lists and undoing look them
/// up. A name that looks like a secret made the record disagree with itself.
#[tokio::test]
async fn au_05_an_identity_that_looks_like_a_secret_does_not_break_the_record() {
    let looks_secret = "sk-aaaaaaaaaaaaaaaaaaaaaaaa";
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request(looks_secret, "sample", json!({"text": looks_secret}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let path = WorkPath::relative(&format!("notes/{looks_secret}.md")).unwrap();
    let kept = CallEvent::PreimageKept {
        path: path.clone(),
        artifact: None,
        before: None,
        mode: None,
    };
    let changed = CallEvent::FileChanged {
        path,
        after: None,
        artifact: None,
    };
    let events = vec![at(asked.id, kept), at(asked.id, changed)];
    record.append(events, Durability::Durable).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    let events = ledger.events(&tenant(), asked.id).await.unwrap();
    assert_eq!(events[0].body["principal"]["session"], looks_secret);
    assert_eq!(
        events[0].body["arguments"]["value"]["text"],
        haft_ledger::REDACTED
    );
    for event in &events[1..3] {
        assert_eq!(event.body["path"], format!("notes/{looks_secret}.md"));
    }
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 4 });
}

/// AU-11: what was emptied, taken away, moved to another tenant or put back from an older copy ends
/// before its high-water mark, and that is said at the next start and by `verify`.
#[tokio::test]
async fn au_11_a_record_that_ends_before_its_mark_is_named() {
    for (tamper, says) in [
        (
            "DELETE FROM event; DELETE FROM chain; DELETE FROM checkpoint; DELETE FROM call; DELETE FROM session",
            "once had 20 entries and has 0",
        ),
        (
            "UPDATE event SET tenant = 'other'; UPDATE chain SET tenant = 'other';
             UPDATE checkpoint SET tenant = 'other'; UPDATE call SET tenant = 'other';
             UPDATE session SET tenant = 'other'",
            "once had 20 entries and has 0",
        ),
    ] {
        let fixture = twenty_records().await;
        fixture.tamper(tamper).await;
        lost(&fixture, says).await;
    }
}

#[tokio::test]
async fn au_11_an_older_copy_that_is_put_back_is_named() {
    let fixture = twenty_records().await;
    let database = fixture.directory().join("ledger.db");
    let older = std::fs::read(&database).unwrap();
    let ledger = fixture.open().await;
    let (_, record) = whole_call(&ledger, "s1", "one more").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
    // The control: untouched, it is whole.
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.lost.is_empty(), "{:?}", recovery.lost);
    ledger.close().await.unwrap();
    for name in ["ledger.db-wal", "ledger.db-shm"] {
        let _ = std::fs::remove_file(fixture.directory().join(name));
    }
    std::fs::write(&database, older).unwrap();
    lost(&fixture, "once had 24 entries and has 20").await;
}

#[tokio::test]
async fn au_11_a_record_that_was_taken_away_is_named() {
    let fixture = twenty_records().await;
    std::fs::remove_file(fixture.directory().join("ledger.db")).unwrap();
    lost(&fixture, "once had 20 entries and has 0").await;
    let fixture = twenty_records().await;
    std::fs::remove_dir_all(fixture.directory()).unwrap();
    lost(&fixture, "the record that was here is gone or was replaced").await;
}

async fn lost(fixture: &Fixture, says: &str) {
    let (ledger, recovery) = fixture.recover().await;
    assert!(
        recovery.lost.iter().any(|lost| lost.contains(says)),
        "{says}: {:?}",
        recovery.lost
    );
    assert!(!recovery.is_empty());
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Broken { reason, .. } => assert!(reason.contains(says), "{reason}"),
        intact @ Verification::Intact { .. } => panic!("{says}: {intact:?}"),
    }
    // What is recorded from here on does not hide it.
    let (_, record) = whole_call(&ledger, "s2", "later").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
    let (ledger, recovery) = fixture.recover().await;
    assert!(!recovery.lost.is_empty(), "{says}");
    ledger.close().await.unwrap();
}
