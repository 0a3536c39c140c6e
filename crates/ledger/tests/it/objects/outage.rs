//! A storage that cannot be reached is said to be, in time; the record goes on without it, and nothing
//! of its credentials is in the record.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    Terminal,
    host::{History as _, Ledger as _, LedgerErrorKind},
};
use haft_ledger::{REDACTED, StoredLedger};
use haft_testkit::{Harness, object_server::SECRET_KEY, sample};
use serde_json::json;

use super::{ObjectFixture, keep, key, long_content};
use crate::support::{NOW, request, settled, tenant, whole_call};

/// What one request may take, and as much again for a machine that is slow.
const IN_TIME: Duration = Duration::from_secs(40);

async fn everything_fails_in_time(fixture: &ObjectFixture, ledger: &StoredLedger) {
    let artifacts = ledger.expiring_artifacts();
    let open = ledger.artifacts();
    let known = haft_contract::host::ArtifactId {
        hash: *blake3::hash(b"known").as_bytes(),
        bytes: 5,
    };
    let began = Instant::now();
    let (small, large, opened, renewed, kept, swept) = tokio::join!(
        async {
            let mut writer = artifacts.create().await.unwrap();
            writer.write(b"small").await.unwrap();
            writer.finish().await
        },
        async {
            let mut writer = artifacts.create().await.unwrap();
            writer.write(&long_content(9 * 1024 * 1024)).await.unwrap();
            writer.finish().await
        },
        open.open(known),
        open.renew(vec![known]),
        open.keep_all(vec![b"other".to_vec()]),
        artifacts.expire(NOW, haft_ledger::Retention::default()),
    );
    let took = began.elapsed();
    println!("answers after {took:?}");
    assert!(took < IN_TIME, "{took:?}");
    for error in [
        small.unwrap_err(),
        large.unwrap_err(),
        opened.err().unwrap(),
        renewed.unwrap_err(),
        kept.unwrap_err(),
        swept.unwrap_err(),
    ] {
        assert_eq!(error.kind(), LedgerErrorKind::Unavailable, "{error}");
        assert!(
            error.to_string().contains("the artifact storage"),
            "{error}"
        );
    }
    // A call is recorded all the same, and another process opens the record.
    let (call, record) = whole_call(ledger, "s1", "without artifacts").await;
    record.settled().await.unwrap();
    let stored = ledger.call(&tenant(), call).await.unwrap().unwrap();
    assert_eq!(stored.terminal, Some(Terminal::Succeeded));
    let again = fixture.open().await;
    assert!(again.call(&tenant(), call).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn au_06_a_storage_that_is_gone_is_said_to_be() {
    let fixture = ObjectFixture::new();
    let ledger = fixture.open().await;
    keep(&ledger.expiring_artifacts(), b"known").await;
    fixture.server.stop();
    everything_fails_in_time(&fixture, &ledger).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol; waits for a request's whole deadline"]
async fn au_06_a_storage_that_does_not_answer_is_not_waited_for() {
    let fixture = ObjectFixture::new();
    let ledger = fixture.open().await;
    keep(&ledger.expiring_artifacts(), b"known").await;
    fixture.server.freeze();
    everything_fails_in_time(&fixture, &ledger).await;
}

/// With the real pipeline: a change whose earlier content cannot be kept is not made, and output that
/// cannot be kept is said to be lost. Both calls are on record as they ended.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn au_06_calls_end_truthfully_without_the_storage() {
    let fixture = ObjectFixture::new();
    let ledger = fixture.open().await;
    let harness = Harness::memory()
        .tools(sample::all())
        .ledger(Arc::new(ledger.clone()))
        .build();
    harness.tree.put("notes.txt", "one\n");
    let flood = json!({"chunks": [{"bytes": b"a line\n".to_vec()}], "repeat": 100_000});
    let add = json!({"path": "notes.txt", "line": "two"});
    harness.succeed("append", add.clone()).await;
    let spilled = harness.succeed("emit", flood.clone()).await;
    let kept = spilled.facts.artifact.expect("the whole output");
    let stored = fixture.server.get(&key(kept));
    assert_eq!(stored, b"a line\n".repeat(100_000));
    assert_eq!(harness.tree.text("notes.txt"), "one\ntwo\n");
    fixture.server.stop();

    let refused = harness.fail("append", add).await;
    let text = refused.model_text();
    assert!(text.contains("previous content cannot be kept"), "{text}");
    assert_eq!(harness.tree.text("notes.txt"), "one\ntwo\n");
    let lost = harness.succeed("emit", flood).await;
    assert_eq!(lost.facts.artifact, None);
    let text = lost.text();
    assert!(text.contains("could not be kept"), "{text}");
    for (outcome, terminal) in [(refused, Terminal::Failed), (lost, Terminal::Succeeded)] {
        let tenant = &harness.principal.tenant;
        let call = ledger.call(tenant, outcome.call).await.unwrap().unwrap();
        assert_eq!(call.terminal, Some(terminal));
    }
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn au_01_the_storages_credentials_are_not_in_the_record() {
    let fixture = ObjectFixture::new();
    let ledger = fixture.open().await;
    keep(&ledger.expiring_artifacts(), b"kept").await;
    assert!(!format!("{:?}", fixture.options()).contains(SECRET_KEY));
    let asked = request(
        "s1",
        "bash",
        json!({"command": format!("echo {SECRET_KEY}")}),
    );
    let record = ledger.open(&asked, NOW).await.unwrap();
    record.settle(vec![settled(asked.id, Terminal::Succeeded, SECRET_KEY)]);
    record.settled().await.unwrap();
    let events = ledger.events(&tenant(), asked.id).await.unwrap();
    let arguments = events[0].body["arguments"].to_string();
    assert!(arguments.contains(REDACTED), "{arguments}");
    ledger.close().await.unwrap();
    let mut files = 0;
    assert_clean(&fixture.fixture.directory(), &mut files);
    assert!(files > 2, "{files}");
}

fn assert_clean(directory: &Path, files: &mut usize) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_clean(&path, files);
            continue;
        }
        *files += 1;
        let bytes = std::fs::read(&path).unwrap();
        let secret = SECRET_KEY.as_bytes();
        let holds = bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!holds, "the secret is in {}", path.display());
    }
}
