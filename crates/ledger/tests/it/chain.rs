//! AU-05: whatever is done to the stored records, `verify` names the first bad one.

use haft_contract::{
    Access, Arguments, CallEvent, Effects, Terminal, WorkPath,
    host::{Durability, History as _, Ledger as _, LedgerErrorKind, Verification},
};
use haft_ledger::StoredLedger;
use serde_json::json;

use crate::{
    engine::EngineFixture,
    support::{Fixture, NOW, at, planned, request, settled, started, tenant, whole_call, writes},
};

/// Five calls of two rows each, a checkpoint every six rows, closed.
pub(crate) async fn ten_rows<F: EngineFixture>(engine: &F) -> F {
    let fixture = engine.another().await;
    let mut options = fixture.options();
    options.checkpoint_every = 6;
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    for index in 0..5 {
        let (_, record) = whole_call(&ledger, "s1", &format!("call {index}")).await;
        record.settled().await.unwrap();
    }
    // The list of sessions catches up.
    assert_eq!(ledger.sessions(&tenant(), &[], 9).await.unwrap().len(), 1);
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 10 });
    ledger.close().await.unwrap();
    fixture
}

async fn check(engine: &impl EngineFixture, tamper: &str, expect: u64) {
    let fixture = ten_rows(engine).await;
    fixture.tamper(tamper).await;
    names(&fixture.open().await, tamper, expect).await;
}

/// Tampers with one record, one way after the other.
async fn check_all<F: EngineFixture>(engine: &F, cases: &[(&str, u64)]) {
    const TABLES: [&str; 9] = [
        "workspace",
        "call_fact",
        "provider_used",
        "record",
        "tenant",
        "session",
        "principal",
        "session_calls",
        "checkpoint",
    ];
    let fixture = ten_rows(engine).await;
    let ledger = fixture.open().await;
    for table in TABLES {
        let copy = format!("CREATE TABLE {table}_before AS SELECT * FROM {table}");
        fixture.tamper(&copy).await;
    }
    for (tamper, expect) in cases {
        fixture.tamper(tamper).await;
        names(&ledger, tamper, *expect).await;
        for table in TABLES {
            fixture.tamper(&F::put_back(table)).await;
        }
        let verified = ledger.verify(&tenant()).await.unwrap();
        assert_eq!(verified, Verification::Intact { records: 10 }, "{tamper}");
    }
}

async fn names(ledger: &StoredLedger, tamper: &str, expect: u64) {
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Broken { sequence, reason } => {
            assert_eq!(sequence, expect, "{tamper}: {reason}");
        }
        intact @ Verification::Intact { .. } => panic!("{tamper}: {intact:?}"),
    }
}

#[tokio::test]
async fn au_05_an_edited_record_is_named() {
    edited_record(&Fixture::new()).await;
}

pub(crate) async fn edited_record(engine: &impl EngineFixture) {
    check(
        engine,
        "UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'call 2', 'call 9') AS BLOB)
         WHERE position = 6",
        6,
    )
    .await;
}

/// Every column is hashed, or checked against one that is.
#[tokio::test]
async fn au_05_every_column_of_a_row_is_covered() {
    every_column(&Fixture::new()).await;
}

pub(crate) async fn every_column(engine: &impl EngineFixture) {
    check_all(
        engine,
        &[
            ("UPDATE record SET session = 99 WHERE position = 3", 3),
            ("UPDATE record SET principal = 99 WHERE position = 3", 3),
            (
                "UPDATE record SET call = zeroblob(16) WHERE position = 3",
                3,
            ),
            ("UPDATE record SET part = 7 WHERE position = 3", 3),
            ("UPDATE record SET listed = 1 WHERE position = 3", 3),
            ("UPDATE record SET at = at + 1 WHERE position = 3", 3),
            ("UPDATE record SET terminal = 2 WHERE position = 4", 4),
            ("UPDATE record SET terminal = NULL WHERE position = 10", 10),
            ("UPDATE record SET terminal = 0 WHERE position = 3", 3),
            ("UPDATE record SET sequence = 9 WHERE position = 3", 3),
            ("UPDATE record SET form = 2 WHERE position = 3", 3),
            (
                "UPDATE record SET hash = zeroblob(32) WHERE position = 3",
                3,
            ),
            ("UPDATE record SET writer = 99 WHERE position = 3", 3),
            // Its own chain misses it.
            ("UPDATE record SET position = 99 WHERE position = 3", 4),
            ("UPDATE record SET tenant = 99 WHERE position = 3", 4),
        ],
    )
    .await;
}

/// Rows refer to names by number, and the hash has the names.
#[tokio::test]
async fn au_05_a_name_that_was_changed_is_noticed() {
    changed_name(&Fixture::new()).await;
}

pub(crate) async fn changed_name(engine: &impl EngineFixture) {
    check_all(
        engine,
        &[
            (
                "UPDATE principal SET stored = replace(stored, 'ada', 'eve')",
                1,
            ),
            ("DELETE FROM principal", 1),
            ("UPDATE session SET name = 's9'", 1),
            ("DELETE FROM session", 1),
            ("UPDATE session SET tenant = 99", 1),
            ("UPDATE tenant SET name = 'other'", 1),
            (
                "INSERT INTO provider_used SELECT tenant, session, 'mcp' FROM record LIMIT 1",
                11,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn au_05_a_deleted_record_is_named() {
    deleted_record(&Fixture::new()).await;
}

pub(crate) async fn deleted_record(engine: &impl EngineFixture) {
    check(engine, "DELETE FROM record WHERE position = 7", 8).await;
    check(engine, "DELETE FROM record WHERE position = 1", 2).await;
}

#[tokio::test]
async fn au_05_reordered_records_are_named() {
    reordered_records(&Fixture::new()).await;
}

pub(crate) async fn reordered_records(engine: &impl EngineFixture) {
    check(
        engine,
        "UPDATE record SET position = -1 WHERE position = 5;
         UPDATE record SET position = 5 WHERE position = 6;
         UPDATE record SET position = 6 WHERE position = -1",
        5,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_truncated_tail_is_named() {
    truncated_tail(&Fixture::new()).await;
}

pub(crate) async fn truncated_tail(engine: &impl EngineFixture) {
    check(engine, "DELETE FROM record WHERE position > 8", 9).await;
    check(
        engine,
        "DELETE FROM record WHERE position > 8; DELETE FROM chain",
        8,
    )
    .await;
    // All of it goes, and its signed end; a checkpoint remembers.
    check(engine, "DELETE FROM record; DELETE FROM chain", 1).await;
}

/// Every writer's chain is in every checkpoint: cutting one while the other goes on shows.
#[tokio::test]
async fn au_05_a_checkpoint_has_the_ends_of_all_writers() {
    ends_of_all_writers(&Fixture::new()).await;
}

pub(crate) async fn ends_of_all_writers(engine: &impl EngineFixture) {
    let fixture = engine.another().await;
    let (here, there) = (fixture.open().await, fixture.open().await);
    for ledger in [&here, &there] {
        let (_, record) = whole_call(ledger, "s1", "one").await;
        record.settled().await.unwrap();
    }
    there.close().await.unwrap();
    assert_eq!(
        fixture
            .number("SELECT count(DISTINCT writer) FROM record")
            .await,
        2
    );
    let verified = here.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 4 });
    fixture
        .tamper(
            "DELETE FROM record WHERE writer = (SELECT writer FROM record WHERE position = 1);
             DELETE FROM chain WHERE writer NOT IN (SELECT writer FROM record)",
        )
        .await;
    names(&here, "one writer's rows are gone", 5).await;
}

/// A checkpoint that had signed it would say for ever that the record was changed.
#[tokio::test]
async fn au_05_a_forged_end_of_another_writer_is_not_signed() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let (_, record) = whole_call(&there, "s1", "one").await;
    record.settled().await.unwrap();
    there.close().await.unwrap();
    fixture
        .tamper(
            "CREATE TABLE chain_before AS SELECT * FROM chain;
             UPDATE chain SET hash = zeroblob(32)",
        )
        .await;
    let (_, record) = whole_call(&here, "s1", "two").await;
    record.settled().await.unwrap();
    names(&here, "the other writer's end is forged", 2).await;
    // Closing writes a checkpoint.
    here.close().await.unwrap();
    fixture
        .tamper(
            "UPDATE chain SET hash = before.hash FROM chain_before AS before
             WHERE before.writer = chain.writer AND before.sequence = chain.sequence",
        )
        .await;
    let verified = fixture.open().await.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 4 });
}

#[tokio::test]
async fn au_05_a_forged_end_is_named_and_nothing_is_appended_to_it() {
    forged_end(&Fixture::new()).await;
}

pub(crate) async fn forged_end(engine: &impl EngineFixture) {
    let forge = "DELETE FROM record WHERE position > 8; DELETE FROM checkpoint;
        UPDATE chain SET sequence = 8, hash = (SELECT hash FROM record WHERE position = 8)";
    check(engine, forge, 8).await;
    let fixture = ten_rows(engine).await;
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
async fn au_05_a_forged_checkpoint_is_named() {
    forged_checkpoint(&Fixture::new()).await;
}

pub(crate) async fn forged_checkpoint(engine: &impl EngineFixture) {
    check_all(
        engine,
        &[
            ("UPDATE checkpoint SET heads = '[]'", 11),
            (
                "UPDATE checkpoint SET mac = zeroblob(32) WHERE number = 1",
                11,
            ),
            ("UPDATE checkpoint SET number = number + 10", 11),
            ("DELETE FROM checkpoint WHERE number = 1", 11),
        ],
    )
    .await;
}

#[tokio::test]
async fn au_05_a_row_that_nobody_wrote_is_named() {
    row_that_nobody_wrote(&Fixture::new()).await;
}

pub(crate) async fn row_that_nobody_wrote(engine: &impl EngineFixture) {
    check(
        engine,
        "INSERT INTO record SELECT 11, tenant, session, principal, zeroblob(16), part, listed, at,
             terminal, writer, sequence, form, body, hash FROM record WHERE position = 7",
        11,
    )
    .await;
}

#[tokio::test]
async fn au_05_a_list_of_sessions_that_disagrees_with_its_calls_is_named() {
    list_of_sessions(&Fixture::new()).await;
}

pub(crate) async fn list_of_sessions(engine: &impl EngineFixture) {
    check_all(
        engine,
        &[
            ("UPDATE session_calls SET calls = 4", 11),
            ("UPDATE session_calls SET last_at = last_at + 1", 11),
            ("UPDATE session_calls SET first_at = first_at - 1", 11),
            ("UPDATE session_calls SET agent = 'mallory'", 11),
            ("UPDATE session_calls SET kind = 'cron'", 11),
            ("DELETE FROM session_calls", 11),
            (
                "INSERT INTO session_calls
             SELECT 99, workspace, tenant, kind, agent, first_at, last_at, 1 FROM session_calls",
                11,
            ),
            ("UPDATE session_calls SET workspace = workspace + 7", 11),
            (
                "UPDATE call_fact SET workspace = workspace + 7 WHERE listed = 3",
                11,
            ),
            ("DELETE FROM call_fact WHERE listed = 3", 11),
            ("UPDATE call_fact SET opened_at = opened_at + 1", 11),
            ("UPDATE workspace SET name = 'ws-elsewhere'", 11),
        ],
    )
    .await;
}

#[tokio::test]
async fn au_05_an_open_call_is_covered_too() {
    open_call(&Fixture::new()).await;
}

pub(crate) async fn open_call(engine: &impl EngineFixture) {
    let fixture = engine.another().await;
    let ledger = fixture.open().await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let events = vec![writes(asked.id), started(asked.id)];
    record.append(events, Durability::Durable).await.unwrap();
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: 1 });
    fixture.tamper("UPDATE record SET terminal = 1").await;
    names(&ledger, "an open call has an end", 1).await;
}

/// What the list says is folded from the redacted record, whatever was taken out of it or left
/// out as too large, and after a crash too.
#[tokio::test]
async fn au_05_ordinary_records_of_any_shape_are_intact() {
    ordinary_records(&Fixture::new()).await;
}

pub(crate) async fn ordinary_records(engine: &impl EngineFixture) {
    let fixture = engine.another().await;
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
    assert_eq!(verified, Verification::Intact { records: 6 });
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
    assert_eq!(verified, Verification::Intact { records: 2 });
}

/// AU-11: what was emptied, taken away, moved to another tenant or put back from an older copy ends
/// before its high-water mark, and that is said at the next start and by `verify`.
#[tokio::test]
async fn au_11_a_record_that_ends_before_its_mark_is_named() {
    ends_before_its_mark(&Fixture::new()).await;
}

pub(crate) async fn ends_before_its_mark(engine: &impl EngineFixture) {
    for tamper in [
        "DELETE FROM record; DELETE FROM chain; DELETE FROM checkpoint; DELETE FROM session_calls",
        "UPDATE tenant SET name = 'other'",
        "UPDATE record SET tenant = 99; UPDATE chain SET tenant = 99; UPDATE checkpoint SET tenant = 99;
         UPDATE session_calls SET tenant = 99",
    ] {
        let fixture = ten_rows(engine).await;
        fixture.tamper(tamper).await;
        lost(&fixture, "and has 0").await;
    }
}

#[tokio::test]
async fn au_11_an_older_copy_that_is_put_back_is_named() {
    let fixture = ten_rows(&Fixture::new()).await;
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
    lost(&fixture, "and has 10").await;
}

#[tokio::test]
async fn au_11_a_record_that_was_taken_away_is_named() {
    let fixture = ten_rows(&Fixture::new()).await;
    std::fs::remove_file(fixture.directory().join("ledger.db")).unwrap();
    lost(&fixture, "and has 0").await;
    let fixture = ten_rows(&Fixture::new()).await;
    std::fs::remove_dir_all(fixture.directory()).unwrap();
    lost(&fixture, "the record that was here is gone or was replaced").await;
}

pub(crate) async fn lost(fixture: &impl EngineFixture, says: &str) {
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
