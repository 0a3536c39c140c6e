//! A record that was exported and imported is as verifiable as before, and whatever is done to
//! an export, nothing of it is imported.

use std::{
    io::{self, Cursor, Read, Write},
    sync::{Arc, Mutex},
};

use haft_contract::{
    CallEvent, CallId, ProviderId, Terminal, ToolKey, ToolName,
    event::RecordedEvent,
    host::{CallQuery, Durability, History as _, Ledger as _, Timestamp, Verification},
};
use haft_ledger::{Imported, MAX_LINE_BYTES, SignatureCheck, StoredLedger, TransferError};
use serde_json::{Value, json};

use crate::support::{
    Fixture, NOW, approved, at, principal, question, request, settled, start_with, started, tenant,
    whole_call, writes,
};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) async fn export_since(
    ledger: &StoredLedger,
    since: Option<Timestamp>,
) -> Result<Vec<u8>, TransferError> {
    let out = Buffer::default();
    let to = Box::new(out.clone());
    ledger.export(&tenant(), since, to, &|_, _| {}).await?;
    let bytes = out.0.lock().unwrap().clone();
    Ok(bytes)
}

pub(crate) async fn export(ledger: &StoredLedger) -> Vec<u8> {
    export_since(ledger, None).await.unwrap()
}

fn input(bytes: &[u8]) -> Box<dyn Read + Send> {
    Box::new(Cursor::new(bytes.to_vec()))
}

pub(crate) async fn import(
    ledger: &StoredLedger,
    bytes: &[u8],
    signature: SignatureCheck,
) -> Result<Imported, TransferError> {
    ledger.import(&tenant(), input(bytes), signature).await
}

/// The key of the record that was exported.
fn with_key(source: &Fixture) -> SignatureCheck {
    let key = std::fs::read(source.directory().join("checkpoint.key")).unwrap();
    SignatureCheck {
        key: Some(key.try_into().unwrap()),
        may_be_unknown: false,
    }
}

pub(crate) const UNSIGNED: SignatureCheck = SignatureCheck {
    key: None,
    may_be_unknown: true,
};

async fn intact(ledger: &StoredLedger) -> u64 {
    match ledger.verify(&tenant()).await.unwrap() {
        Verification::Intact { records } => records,
        broken @ Verification::Broken { .. } => panic!("{broken:?}"),
    }
}

/// A call of a mounted server's tool, started with an approval.
pub(crate) async fn approved_call(ledger: &StoredLedger) -> CallId {
    let approval = approved(ledger, 1).await;
    let asked = request("s1", "tool", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let tool = ToolKey::new(
        ProviderId::parse("mcp").unwrap(),
        ToolName::parse("tool").unwrap(),
    );
    let resolved = at(asked.id, CallEvent::Resolved { tool });
    let start = start_with(asked.id, Some(approval.id), &[]);
    let events = vec![resolved, start];
    record.append(events, Durability::Durable).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    asked.id
}

/// Calls of two writers: of several sessions, small and large, of a mounted server.
async fn source() -> (Fixture, StoredLedger, Vec<CallId>) {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let mut calls = Vec::new();
    for index in 0..6 {
        let ledger = if index % 2 == 0 { &here } else { &there };
        let text = format!("call{index} ").repeat(1 + index * 200);
        let (id, record) = whole_call(ledger, &format!("s{}", index % 3), &text).await;
        record.settled().await.unwrap();
        calls.push(id);
    }
    calls.push(approved_call(&here).await);
    there.close().await.unwrap();
    let writers = "SELECT count(DISTINCT writer) FROM record";
    assert_eq!(fixture.number(writers).await, 2);
    (fixture, here, calls)
}

/// What a call looks like, but for where it is.
async fn shown(ledger: &StoredLedger, id: CallId) -> Value {
    let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
    let events = ledger.events(&tenant(), id).await.unwrap();
    let events: Vec<Value> = events
        .iter()
        .map(|event| json!([event.kind, event.at.0, event.body]))
        .collect();
    json!({
        "user": call.user, "agent": call.agent, "session": call.session.as_str(),
        "tool": call.tool, "opened": call.opened.0, "summary": call.summary,
        "terminal": call.terminal.map(Terminal::as_str), "events": events,
    })
}

#[tokio::test]
async fn an_imported_record_is_as_it_was_and_intact() {
    let (from, source, calls) = source().await;
    let bytes = export(&source).await;
    let target = Fixture::new();
    let ledger = target.open().await;
    let (own, record) = whole_call(&ledger, "s0", "mine").await;
    record.settled().await.unwrap();
    let imported = import(&ledger, &bytes, with_key(&from)).await.unwrap();
    assert!(imported.is_signed);
    assert_eq!(
        (imported.calls, imported.records),
        (7, intact(&source).await)
    );
    assert_eq!((imported.unknown, imported.left_out), (0, 0));
    assert_eq!(intact(&ledger).await, imported.records + 2);
    for id in &calls {
        assert_eq!(shown(&ledger, *id).await, shown(&source, *id).await);
    }
    let search = CallQuery {
        search: Some("call3".to_owned()),
        limit: 9,
        ..CallQuery::default()
    };
    let found = ledger.calls(&tenant(), &search).await.unwrap();
    assert_eq!(
        found.iter().map(|call| call.id).collect::<Vec<_>>(),
        [calls[3]]
    );
    let (tenant_of, who) = (tenant(), principal("s1"));
    let used = ledger.providers_used(&tenant_of, &who.session, 9).await;
    assert_eq!(used.unwrap(), ["mcp"]);
    // What follows is written as ever, and everything survives.
    let (_, record) = whole_call(&ledger, "s1", "later").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
    let (ledger, recovery) = target.recover().await;
    assert!(recovery.is_empty(), "{recovery:?}");
    assert_eq!(intact(&ledger).await, imported.records + 4);
    // And on to a third.
    let third = Fixture::new();
    let last = third.open().await;
    let bytes = export(&ledger).await;
    let imported = import(&last, &bytes, with_key(&target)).await.unwrap();
    assert_eq!(imported.calls, 9);
    assert_eq!(intact(&last).await, imported.records);
    assert_eq!(shown(&last, own).await, shown(&ledger, own).await);
    assert_eq!(shown(&last, calls[5]).await, shown(&source, calls[5]).await);
}

#[tokio::test]
async fn what_is_there_already_is_refused_whole() {
    let (from, source, calls) = source().await;
    let bytes = export(&source).await;
    let refused = import(&source, &bytes, SignatureCheck::default()).await;
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, format!("call {} is recorded already", calls[0]));
    // Some of it is there: none of the rest is taken.
    let target = Fixture::new();
    let ledger = target.open().await;
    import(&ledger, &bytes, with_key(&from)).await.unwrap();
    let before = intact(&ledger).await;
    let (_, record) = whole_call(&source, "s9", "new").await;
    record.settled().await.unwrap();
    let refused = import(&ledger, &export(&source).await, with_key(&from)).await;
    assert!(
        matches!(refused, Err(TransferError::Conflict(_))),
        "{refused:?}"
    );
    assert_eq!(intact(&ledger).await, before);
}

#[tokio::test]
async fn signatures_are_checked_with_the_key_or_not_at_all() {
    let (from, source, _) = source().await;
    let bytes = export(&source).await;
    let target = Fixture::new();
    let ledger = target.open().await;
    let wrong = SignatureCheck {
        key: Some([7; 32]),
        may_be_unknown: true,
    };
    for signature in [SignatureCheck::default(), wrong] {
        let refused = import(&ledger, &bytes, signature).await;
        assert!(
            matches!(refused, Err(TransferError::OtherKey)),
            "{refused:?}"
        );
        let refused = ledger.check_export(input(&bytes), signature).await;
        assert!(
            matches!(refused, Err(TransferError::OtherKey)),
            "{refused:?}"
        );
    }
    assert_eq!(target.number("SELECT count(*) FROM record").await, 0);
    let checked = ledger
        .check_export(input(&bytes), with_key(&from))
        .await
        .unwrap();
    assert!(checked.is_signed && checked.records == intact(&source).await);
    let imported = import(&ledger, &bytes, UNSIGNED).await.unwrap();
    assert!(!imported.is_signed);
    assert_eq!(intact(&ledger).await, imported.records);
    // A record with the same key needs none.
    let copy = Fixture::new();
    std::fs::create_dir(copy.directory()).unwrap();
    let key = "checkpoint.key";
    std::fs::copy(from.directory().join(key), copy.directory().join(key)).unwrap();
    let imported = import(&copy.open().await, &bytes, SignatureCheck::default()).await;
    assert!(imported.unwrap().is_signed);
}

/// Also without the key: the last line has the hash of all bytes.
#[tokio::test]
async fn any_changed_byte_is_noticed() {
    let fixture = Fixture::new();
    let source = fixture.open().await;
    let (_, record) = whole_call(&source, "s1", "a").await;
    record.settled().await.unwrap();
    let bytes = export(&source).await;
    let target = Fixture::new();
    let ledger = target.open().await;
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        let checked = ledger.check_export(input(&changed), UNSIGNED).await;
        assert!(checked.is_err(), "byte {index} was changed");
        if index % 97 == 0 {
            assert!(import(&ledger, &changed, UNSIGNED).await.is_err());
        }
    }
    for length in 0..bytes.len() {
        let checked = ledger.check_export(input(&bytes[..length]), UNSIGNED).await;
        assert!(checked.is_err(), "it was cut at {length}");
        if length % 97 == 0 {
            assert!(import(&ledger, &bytes[..length], UNSIGNED).await.is_err());
        }
    }
    let mut longer = bytes.clone();
    longer.push(b'\n');
    assert!(import(&ledger, &longer, UNSIGNED).await.is_err());
    assert_eq!(target.number("SELECT count(*) FROM record").await, 0);
    assert_eq!(target.number("SELECT count(*) FROM tenant").await, 0);
    assert!(import(&ledger, &bytes, UNSIGNED).await.is_ok());
}

/// The lines of an export, to be changed by somebody who knows its form and not its key.
fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// An export of these lines, with the hash they have.
fn sealed(lines: &[Value]) -> Vec<u8> {
    let mut text = String::new();
    for line in &lines[..lines.len() - 1] {
        text.push_str(&serde_json::to_string(line).unwrap());
        text.push('\n');
    }
    let hash = blake3::hash(text.as_bytes()).to_hex();
    let last = format!("{{\"blake3\":\"{hash}\"}}\n");
    text.push_str(&last);
    text.into_bytes()
}

/// Somebody who makes every hash anew is still found out by the key.
#[tokio::test]
async fn a_row_that_is_taken_off_the_end_is_noticed_by_the_key() {
    let fixture = Fixture::new();
    let source = fixture.open().await;
    for _ in 0..2 {
        let (_, record) = whole_call(&source, "s1", "a").await;
        record.settled().await.unwrap();
    }
    let mut lines = lines(&export(&source).await);
    let end = lines.len() - 2;
    lines.remove(end - 1);
    let target = Fixture::new();
    let ledger = target.open().await;
    let refused = import(&ledger, &sealed(&lines), UNSIGNED).await;
    assert!(
        matches!(refused, Err(TransferError::Altered(_))),
        "{refused:?}"
    );
    let end = end - 1;
    lines[end]["end"]["rows"] = json!(3);
    let refused = import(&ledger, &sealed(&lines), UNSIGNED).await;
    assert!(
        matches!(refused, Err(TransferError::Altered(_))),
        "{refused:?}"
    );
    lines[end]["end"]["chains"][0]["sequence"] = json!(3);
    lines[end]["end"]["chains"][0]["hash"] = lines[end - 1]["row"]["hash"].clone();
    let refused = import(&ledger, &sealed(&lines), with_key(&fixture)).await;
    assert!(
        matches!(refused, Err(TransferError::OtherKey)),
        "{refused:?}"
    );
    // Without the key nobody can tell; the call it cut has no end.
    let imported = import(&ledger, &sealed(&lines), UNSIGNED).await.unwrap();
    assert_eq!((imported.calls, imported.unknown), (2, 1));
    intact(&ledger).await;
}

/// A row as its hash has it, as `chain.rs` says.
fn row_hash(previous: &[u8], row: &Value) -> [u8; 32] {
    let number = |name: &str| row[name].as_i64().unwrap_or(0).to_be_bytes();
    let call: uuid::Uuid = row["call"].as_str().unwrap().parse().unwrap();
    let body = row["text"].as_str().map_or_else(
        || unhex(row["hex"].as_str().unwrap()),
        |text| text.as_bytes().to_vec(),
    );
    let mut bytes = previous.to_vec();
    for field in [
        b"haft-record-2".as_slice(),
        row["tenant"].as_str().unwrap_or("local").as_bytes(),
        row["writer"].as_str().unwrap().as_bytes(),
        &row["sequence"].as_u64().unwrap().to_be_bytes(),
        call.as_bytes(),
        &number("part"),
        &number("listed"),
        row["principal"].as_str().unwrap().as_bytes(),
        &number("at_us"),
        &number("terminal"),
        &number("form"),
        &body,
    ] {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field);
    }
    *blake3::hash(&bytes).as_bytes()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// An export with these changes to one row, or with more rows, whose hashes are right.
fn forged(rows: &[Value]) -> Vec<u8> {
    let stored = json!({
        "tenant": "local", "user": "ada", "agent": "agent", "ancestors": [], "session": "s1",
        "session_kind": "main", "scopes": [],
    });
    let mut lines = vec![json!({"begin": {"form": 1, "tenant": "local"}})];
    let mut previous = vec![0; 32];
    let mut sequence = 0;
    for (index, changes) in (1..).zip(rows) {
        let body = json!([["opened", 0, {"tool": "sample", "arguments": {"text": "{}"}, "workspace": "local"}]]);
        let mut row = json!({
            "position": index, "writer": "w", "sequence": index, "call": uuid::Uuid::from_u128(index).to_string(),
            "part": 0, "listed": index, "principal": stored.to_string(), "at_us": NOW.0, "terminal": 1,
            "form": 1, "text": body.to_string(),
        });
        let fields = row.as_object_mut().unwrap();
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                fields.remove(name);
            } else {
                fields.insert(name.clone(), value.clone());
            }
        }
        let hash = row_hash(&previous, &row);
        row["hash"] = json!(blake3::Hash::from_bytes(hash).to_hex().to_string());
        previous = hash.to_vec();
        sequence = row["sequence"].as_u64().unwrap();
        lines.push(json!({ "row": row }));
    }
    let hash = blake3::Hash::from_slice(&previous)
        .unwrap()
        .to_hex()
        .to_string();
    let chain = json!({"writer": "w", "sequence": sequence, "hash": hash, "mac": ""});
    lines.push(json!({"end": {"rows": rows.len(), "chains": [chain], "mac": ""}}));
    lines.push(Value::Null);
    sealed(&lines)
}

/// Whoever takes an export without its key still takes nothing that hurts.
#[tokio::test]
#[expect(
    clippy::too_many_lines,
    reason = "a table of everything a row may have"
)]
async fn a_hostile_export_is_refused_and_leaves_nothing() {
    let target = Fixture::new();
    let ledger = target.open().await;
    let pending = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    let one = uuid::Uuid::from_u128(1).to_string();
    let start = |approval: &str| {
        json!([["opened", 0, {"tool": "sample", "arguments": {"text": "{}"}, "workspace": "local"}],
               ["started", 1, {"approval": approval}]])
        .to_string()
    };
    let who = |user: &str, tenant: &str, session: &str| {
        json!({"tenant": tenant, "user": user, "agent": "agent", "ancestors": [], "session": session,
               "session_kind": "main", "scopes": []})
        .to_string()
    };
    let used = uuid::Uuid::from_u128(77).to_string();
    let of_one = |mut row: Value| {
        row["call"] = json!(one);
        row["listed"] = json!(1);
        row
    };
    let open = json!({ "terminal": null });
    for (rows, reason) in [
        (vec![json!({}), json!({ "call": one })], "recorded already"),
        (
            vec![of_one(json!({ "part": i64::MAX, "terminal": null }))],
            "more parts than a call can have",
        ),
        (
            vec![json!({ "part": -1 })],
            "more parts than a call can have",
        ),
        (
            vec![json!({ "part": 1, "terminal": null })],
            "does not begin before it",
        ),
        (
            vec![json!({}), of_one(json!({ "part": 1, "terminal": null }))],
            "follows the end",
        ),
        (
            vec![json!({}), of_one(json!({ "part": 1 << 30 }))],
            "follows the end",
        ),
        (
            vec![open.clone(), of_one(json!({ "part": 3 }))],
            "not at its end",
        ),
        (
            vec![open, of_one(json!({ "part": 1 << 30, "terminal": null }))],
            "not at its end",
        ),
        (
            vec![json!({ "position": i64::MAX, "listed": i64::MAX })],
            "not in its place",
        ),
        (
            vec![json!({ "position": 0, "listed": 0 })],
            "not in its place",
        ),
        (vec![json!({ "position": 2 })], "was moved"),
        (
            vec![json!({}), json!({ "position": 1, "listed": 1 })],
            "not in its place",
        ),
        (vec![json!({ "sequence": 2 })], "are missing"),
        (vec![json!({ "at_us": -1 })], "its time"),
        (vec![json!({ "at_us": i64::MAX })], "its time"),
        (vec![json!({ "terminal": 7 })], "its outcome"),
        (vec![json!({ "terminal": 0 })], "its outcome"),
        (vec![json!({ "form": 3 })], "another version"),
        (
            vec![json!({ "form": 2, "text": null, "hex": "ffffffff00000000" })],
            "larger than any row",
        ),
        (
            vec![json!({ "form": 2, "text": null, "hex": "00" })],
            "another version",
        ),
        (vec![json!({ "hex": "00" })], "it is not a row"),
        (vec![json!({ "extra": 1 })], "it is not a row"),
        (vec![json!({ "principal": "{}" })], "who asked"),
        (
            vec![json!({ "principal": who("ada", "other", "s1") })],
            "who asked",
        ),
        (
            vec![json!({ "principal": who("a\u{1b}[2Jda", "local", "s1") })],
            "who asked",
        ),
        (
            vec![json!({ "principal": who("ada", "local", "s\n1") })],
            "who asked",
        ),
        (
            vec![json!({ "text": start(&pending.id.to_string()) })],
            "of this record",
        ),
        (
            vec![json!({ "text": start("no approval") })],
            "its approval",
        ),
        (
            vec![
                json!({ "text": start(&used) }),
                json!({ "text": start(&used) }),
            ],
            "used twice",
        ),
        (
            vec![json!({ "text": r#"[["resolved",0,{"tool":"a b/c"}],["started",0,{}]]"# })],
            "its tool",
        ),
    ] {
        let refused = import(&ledger, &forged(&rows), UNSIGNED).await;
        let refused = refused.expect_err(reason).to_string();
        assert!(refused.contains(reason), "{rows:?}: {refused}");
        let count = target.number("SELECT count(*) FROM record").await;
        assert_eq!(count, 0, "{rows:?}");
    }
    assert_eq!(target.number("SELECT count(*) FROM approval_used").await, 0);
    assert_eq!(target.number("SELECT count(*) FROM provider_used").await, 0);
    // The control: with nothing wrong it is taken.
    let fine = [
        json!({ "text": start(&used) }),
        json!({ "terminal": null }),
        json!({ "call": uuid::Uuid::from_u128(2).to_string(), "part": 1 << 30, "listed": 2 }),
    ];
    let imported = import(&ledger, &forged(&fine), UNSIGNED).await.unwrap();
    assert_eq!((imported.calls, imported.records), (2, 3));
    assert_eq!(intact(&ledger).await, 3);
}

#[tokio::test]
async fn what_is_no_export_is_refused_without_reading_on() {
    let target = Fixture::new();
    let ledger = target.open().await;
    let begin = "{\"begin\":{\"form\":1,\"tenant\":\"local\"}}\n";
    for text in [
        "",
        "\n",
        "hello\n",
        "{\"begin\":{\"form\":2,\"tenant\":\"local\"}}\n",
        "{\"begin\":{\"form\":1,\"tenant\":\"other\"}}\n",
        "{\"begin\":{\"form\":1,\"tenant\":\"lo\\u0000cal\"}}\n",
        "{\"begin\":{\"form\":1,\"tenant\":\"local\",\"starts\":[{\"writer\":\"w\",\"sequence\":18446744073709551615,\"hash\":\"00\"}]}}\n",
        begin,
        &format!("{begin}{begin}"),
        &format!("{begin}{{\"blake3\":\"00\"}}\n"),
        &format!("{begin}{{\"end\":{{\"rows\":0,\"chains\":[],\"mac\":\"\"}}}}\n"),
        &format!("{begin}{}\n", "[".repeat(100_000)),
    ] {
        let refused = import(&ledger, text.as_bytes(), UNSIGNED).await;
        assert!(refused.is_err(), "{text:.99}: {refused:?}");
    }
    // A line that never ends is not read to its end.
    let endless = Cursor::new(begin).chain(io::repeat(b'a'));
    let refused = ledger.import(&tenant(), Box::new(endless), UNSIGNED).await;
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("longer than a line"),
        "{message} ({MAX_LINE_BYTES})"
    );
}

/// A call at a moment, in two rows, the second at another moment.
async fn call_at(ledger: &StoredLedger, from: i64, to: i64) -> CallId {
    let asked = request("s1", "sample", json!({}));
    let (id, at) = (asked.id, |at: i64| Timestamp(NOW.0 + at));
    let timed = |mut event: RecordedEvent, moment| {
        event.at = moment;
        event
    };
    let record = ledger.open(&asked, at(from)).await.unwrap();
    let events = vec![timed(writes(id), at(from)), timed(started(id), at(from))];
    record.append(events, Durability::Durable).await.unwrap();
    record.settle(vec![timed(settled(id, Terminal::Succeeded, "a"), at(to))]);
    record.settled().await.unwrap();
    id
}

#[tokio::test]
async fn a_part_of_a_record_is_exported_with_whole_calls() {
    let from = Fixture::new();
    let source = from.open().await;
    let before = call_at(&source, 0, 1).await;
    let asked = request("s1", "sample", json!({}));
    let across = source.open(&asked, NOW).await.unwrap();
    let begun = vec![started(asked.id)];
    across.append(begun, Durability::Durable).await.unwrap();
    let after = call_at(&source, 10, 11).await;
    across.settle(vec![settled(asked.id, Terminal::Succeeded, "a")]);
    across.settled().await.unwrap();
    let open = request("s1", "sample", json!({}));
    let left_open = source.open(&open, Timestamp(NOW.0 + 20)).await.unwrap();
    let begun = vec![started(open.id)];
    left_open.append(begun, Durability::Durable).await.unwrap();
    let since = Some(Timestamp(NOW.0 + 5));
    let bytes = export_since(&source, since).await.unwrap();
    let target = Fixture::new();
    let ledger = target.open().await;
    let imported = import(&ledger, &bytes, with_key(&from)).await.unwrap();
    assert_eq!(
        (imported.calls, imported.left_out, imported.unknown),
        (2, 1, 1)
    );
    assert_eq!(intact(&ledger).await, 4);
    for (id, expect) in [
        (before, false),
        (asked.id, false),
        (after, true),
        (open.id, true),
    ] {
        let call = ledger.call(&tenant(), id).await.unwrap();
        assert_eq!(call.is_some(), expect);
    }
    let call = ledger.call(&tenant(), open.id).await.unwrap().unwrap();
    assert_eq!(call.terminal, Some(Terminal::Unknown));
    // Nothing is left to settle, and nothing to run again.
    ledger.close().await.unwrap();
    let (_, recovery) = target.recover().await;
    assert!(recovery.is_empty(), "{recovery:?}");
    // Of nothing, nothing is exported, and that can be imported too.
    let bytes = export_since(&source, Some(Timestamp(NOW.0 + 99)))
        .await
        .unwrap();
    let third = Fixture::new();
    let imported = import(&third.open().await, &bytes, with_key(&from)).await;
    assert_eq!(imported.unwrap().calls, 0);
    // A first row that was cut off the beginning is noticed by the key.
    let mut lines = lines(&export_since(&source, since).await.unwrap());
    let first = lines.remove(1);
    lines[0]["begin"]["starts"][0]["sequence"] = first["row"]["sequence"].clone();
    lines[0]["begin"]["starts"][0]["hash"] = first["row"]["hash"].clone();
    for name in ["writer", "principal"] {
        lines[1]["row"][name] = first["row"][name].clone();
    }
    let refused = import(&third.open().await, &sealed(&lines), with_key(&from)).await;
    assert!(refused.is_err(), "{refused:?}");
}

/// An export is signed, so it must not sign what somebody else has written.
#[tokio::test]
async fn a_record_that_was_changed_is_not_exported() {
    for (tamper, reason) in [
        (
            "UPDATE record SET at = at + 1 WHERE position = 3",
            "record 3 ",
        ),
        ("DELETE FROM record WHERE position = 3", "record 4 "),
        (
            "DELETE FROM record WHERE position > 10",
            "does not end where it was signed",
        ),
        (
            "UPDATE chain SET mac = zeroblob(32)",
            "does not end where it was signed",
        ),
        ("DELETE FROM chain", "does not end where it was signed"),
    ] {
        let fixture = Fixture::new();
        let source = fixture.open().await;
        for _ in 0..6 {
            let (_, record) = whole_call(&source, "s1", "a").await;
            record.settled().await.unwrap();
        }
        fixture.tamper(tamper).await;
        let refused = export_since(&source, None).await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{tamper}: {refused}");
    }
}
