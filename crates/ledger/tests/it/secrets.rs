//! Secrets put into every part of a call are in no byte of what is stored.

use std::{path::Path, sync::Arc};

use haft_contract::{
    Access, Arguments, CallEvent, Effects, Terminal, WorkPath,
    host::{CallQuery, Durability, History as _, Ledger as _},
};
use haft_ledger::{REDACTED, StoredLedger};
use serde_json::json;

use crate::{
    engine::EngineFixture,
    support::{Fixture, NOW, at, outcome, planned, request, settled, tenant},
};

const CANARIES: [&str; 7] = [
    "correct-horse-battery-staple",
    "AKIAQQQQWWWWEEEERRRR",
    "ghp_Q1w2E3r4T5y6U7i8O9p0Q1w2E3r4T5y6U7i8",
    "xoxb-998877665544-QwErTyUiOp",
    "sk-live-QwErTyUiOpAsDfGhJkLz",
    "MIIEcanaryQwErTyUiOpAsDfGhJkLzXcVbNm",
    "hunter2hunter2",
];

fn text_with_canaries() -> String {
    let [exact, aws, github, slack, key, pem, password] = CANARIES;
    format!(
        "{exact} {aws} {github} {slack} {key}\n-----BEGIN PRIVATE KEY-----\n{pem}\n\
         -----END PRIVATE KEY-----\nDB_PASSWORD={password}\nAuthorization: Bearer {password}"
    )
}

fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

/// What is recorded as it is, so that what was looked through is where the record is.
const RECORDED: &str = "an ordinary word";

fn assert_clean(fixture: &impl EngineFixture) {
    let mut found = Vec::new();
    for directory in fixture.directories() {
        files(&directory, &mut found);
    }
    let holds = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(found.iter().any(|(_, bytes)| holds(bytes, RECORDED)));
    for (name, bytes) in found {
        for canary in CANARIES {
            assert!(!holds(&bytes, canary), "`{canary}` is in {name}");
        }
    }
}

#[tokio::test]
async fn au_01_canaries_are_in_no_byte_of_the_record() {
    canaries_are_in_no_byte(&Fixture::new()).await;
}

pub(crate) async fn canaries_are_in_no_byte(fixture: &impl EngineFixture) {
    let options = fixture.options().secret(CANARIES[0]);
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let text = text_with_canaries();
    let input =
        json!({"command": text, "password": CANARIES[6], "nested": [{"api_key": CANARIES[6]}]});
    let asked = request("s1", &format!("bash {}", CANARIES[0]), input);
    let id = asked.id;
    let record = ledger.open(&asked, NOW).await.unwrap();
    let shell = Access::shell(text.clone(), WorkPath::root());
    record
        .append(
            vec![planned(id, Effects::UNKNOWN, shell)],
            Durability::Durable,
        )
        .await
        .unwrap();
    let ordinary = request("s1", "sample", json!({"text": RECORDED}));
    let other = ledger.open(&ordinary, NOW).await.unwrap();
    other.settle(vec![settled(ordinary.id, Terminal::Succeeded, RECORDED)]);
    other.settled().await.unwrap();
    assert_clean(fixture);
    let mut ended = outcome(id, Terminal::Failed, &text);
    ended.structured = Some(json!({"stdout": text, (CANARIES[0]): 1}));
    if let Some(failure) = &mut ended.error {
        failure.message.clone_from(&text);
    }
    let outcome = Arc::new(ended);
    record.settle(vec![at(id, CallEvent::Settled { outcome })]);
    record.settled().await.unwrap();
    assert_clean(fixture);
    let call = ledger.call(&tenant(), id).await.unwrap().unwrap();
    assert!(call.summary.contains(REDACTED));
    // The words around the secrets are still found.
    let query = CallQuery {
        search: Some("DB_PASSWORD".to_owned()),
        limit: 1,
        ..CallQuery::default()
    };
    assert_eq!(ledger.calls(&tenant(), &query).await.unwrap().len(), 1);
    ledger.close().await.unwrap();
    assert_clean(fixture);
}

#[tokio::test]
async fn au_08_a_stored_row_has_redacted_forms_of_secret_arguments_only() {
    secret_arguments_are_redacted_in_a_row(&Fixture::new()).await;
}

/// One call, and what its row has of its arguments.
pub(crate) async fn secret_arguments_are_redacted_in_a_row(fixture: &impl EngineFixture) {
    let ledger = fixture.open().await;
    let input = json!({
        "path": "notes.txt",
        "password": "a plain word",
        "headers": {"api_key": "another word"},
    });
    let asked = request("s1", "sample", input);
    let record = ledger.open(&asked, NOW).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    let rows = fixture.number("SELECT count(*) FROM record").await;
    assert_eq!(rows, 1);
    let has = async |text: &str| {
        let like = format!("CAST(body AS TEXT) LIKE '%{text}%'");
        let count = format!("SELECT count(*) FROM record WHERE {like}");
        fixture.number(&count).await == 1
    };
    for (text, is_there) in [
        ("notes.txt", true),
        (r#""password":"[redacted]""#, true),
        (r#""api_key":"[redacted]""#, true),
        ("a plain word", false),
        ("another word", false),
    ] {
        assert_eq!(has(text).await, is_there, "{text}");
    }
    ledger.close().await.unwrap();
}

/// Values with spaces, values in objects, and the short flags of well-known clients.
#[tokio::test]
async fn au_01_no_part_of_a_longer_secret_is_in_the_record() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let command = "tool --password='my qwrtlong passphrase' --token \"two qwrtwords\" # \
        token: 'a b qwrtsingle d'\nDB_PASSWORD = \"hunter2 with qwrtspaces\"\n\
        {\\\"password\\\": \\\"escaped and qwrtlonger\\\"}\n\
        mysql -uroot -pqwrtShort db; sshpass -p 'qwrt ssh' ssh x; curl -s -u ada:qwrtcurl http://x\n\
        SECRET=\"never qwrtclosed";
    let nested = json!({
        "command": command,
        "password": {"value": "qwrtNested", "kind": ["qwrtdeeper"]},
        "token": 714_253_618_u64,
    });
    let text = json!({"secret": {"value": "qwrtText"}}).to_string();
    for arguments in [Arguments::Value(nested), Arguments::Text(text)] {
        let mut asked = request("s1", "bash", json!({}));
        asked.arguments = arguments;
        let id = asked.id;
        let record = ledger.open(&asked, NOW).await.unwrap();
        let shell = Access::shell(command.to_owned(), WorkPath::root());
        let planned = planned(id, Effects::UNKNOWN, shell);
        record
            .append(vec![planned], Durability::Queued)
            .await
            .unwrap();
        let outcome = Arc::new(outcome(id, Terminal::Succeeded, command));
        record.settle(vec![at(id, CallEvent::Settled { outcome })]);
        record.settled().await.unwrap();
    }
    ledger.close().await.unwrap();
    let mut found = Vec::new();
    files(&fixture.directory(), &mut found);
    for (name, bytes) in found {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for part in ["qwrt", "714253618"] {
            if let Some((before, after)) = text.split_once(part) {
                let before: String = before.chars().rev().take(60).collect();
                let before: String = before.chars().rev().collect();
                let after: String = after.chars().take(30).collect();
                panic!("{name}: {before}>{part}<{after}");
            }
        }
    }
}

#[tokio::test]
async fn a_secret_learnt_later_is_kept_out_from_then_on() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    assert!(ledger.redactor().add("learnt-at-run-time"));
    assert!(!ledger.redactor().add("short"));
    let asked = request("s1", "sample", json!({"text": "learnt-at-run-time"}));
    let _record = ledger.open(&asked, NOW).await.unwrap();
    let events = ledger.events(&tenant(), asked.id).await.unwrap();
    assert_eq!(events[0].body["arguments"]["value"]["text"], REDACTED);
}

/// A model may escape what it need not, and nest as deep as it likes: neither hides a secret, nor
/// makes a call that cannot be read.
#[tokio::test]
async fn neither_escapes_nor_depth_hide_a_secret() {
    let fixture = Fixture::new();
    let options = fixture.options().secret("gr\u{fc}n/geheim");
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let deep = |depth: usize, inner: &str| {
        format!("{}\"{inner}\"{}", "[".repeat(depth), "]".repeat(depth))
    };
    for text in [
        r#"{"url":"postgres:\/\/u:hunter22@db"}"#.to_owned(),
        r#"{"text":"gr\u00fcn\/geheim"}"#.to_owned(),
        r#"{"\u0070assword":"hunter22"}"#.to_owned(),
    ] {
        let mut asked = request("s1", "sample", json!({}));
        asked.arguments = Arguments::Text(text.clone());
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
        record.settled().await.unwrap();
        let events = ledger.events(&tenant(), asked.id).await.unwrap();
        let kept = events[0].body["arguments"].to_string();
        assert!(
            !kept.contains("hunter22") && !kept.contains("geheim"),
            "{kept}"
        );
    }
    for depth in [90, 110, 126] {
        let value = serde_json::from_str(&deep(depth, "sk-aaaaaaaaaaaaaaaaaaaaaaaa")).unwrap();
        let asked = request("s1", "sample", value);
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
        record.settled().await.unwrap();
        let events = ledger.events(&tenant(), asked.id).await.unwrap();
        let kept = events[0].body["arguments"].to_string();
        assert!(!kept.contains("sk-aaaa"), "{kept}");
    }
}
