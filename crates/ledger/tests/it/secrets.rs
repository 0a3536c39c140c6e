//! Secrets put into every part of a call are in no byte of what is stored.

use std::{path::Path, sync::Arc};

use haft_contract::{
    Access, Arguments, CallEvent, Effects, Terminal, WorkPath,
    host::{CallQuery, Durability, History as _, Ledger as _},
};
use haft_ledger::{REDACTED, SqliteLedger};
use serde_json::json;

use crate::support::{Fixture, NOW, at, outcome, planned, request, tenant};

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

fn assert_clean(fixture: &Fixture) {
    let mut found = Vec::new();
    files(&fixture.directory(), &mut found);
    assert!(found.iter().any(|(name, _)| name.ends_with("ledger.db")));
    for (name, bytes) in found {
        for canary in CANARIES {
            let holds = bytes.windows(canary.len()).any(|w| w == canary.as_bytes());
            assert!(!holds, "`{canary}` is in {name}");
        }
    }
}

#[tokio::test]
async fn au_01_canaries_are_in_no_byte_of_the_record() {
    let fixture = Fixture::new();
    let options = fixture.options().secret(CANARIES[0]);
    let (ledger, _) = SqliteLedger::open(options).await.unwrap();
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
    assert_clean(&fixture);
    let mut ended = outcome(id, Terminal::Failed, &text);
    ended.structured = Some(json!({"stdout": text, (CANARIES[0]): 1}));
    if let Some(failure) = &mut ended.error {
        failure.message.clone_from(&text);
    }
    let outcome = Arc::new(ended);
    record.settle(vec![at(id, CallEvent::Settled { outcome })]);
    record.settled().await.unwrap();
    assert_clean(&fixture);
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
    assert_clean(&fixture);
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
