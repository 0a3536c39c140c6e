//! The directory and the schema: private, its own, and never guessed at.

use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use haft_contract::host::{Durability, History as _, Ledger as _, LedgerErrorKind};
use haft_ledger::{DirectoryError, OpenError, SCHEMA_VERSION, StoredLedger};
use serde_json::json;

use crate::{
    engine::EngineFixture,
    support::{Fixture, NOW, request, started, tenant, whole_call},
};

#[tokio::test]
async fn every_file_is_private() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.directory()).unwrap();
    let loose = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(fixture.directory(), loose).unwrap();
    let ledger = fixture.open().await;
    let (_, record) = whole_call(&ledger, "s1", "x").await;
    record.settled().await.unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.directory()), 0o700);
    let mut files = 0;
    for entry in std::fs::read_dir(fixture.directory()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 4, "database, log, key and lock");
}

#[tokio::test]
async fn a_directory_that_is_a_link_is_refused() {
    let fixture = Fixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), fixture.directory()).unwrap();
    let refused = StoredLedger::open(fixture.options()).await.unwrap_err();
    let OpenError::Directory(DirectoryError::NotDirectory(_)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_database_that_is_a_link_is_refused() {
    let fixture = Fixture::new();
    fixture.open().await.close().await.unwrap();
    let database = fixture.directory().join("ledger.db");
    let moved = fixture.directory().join("moved.db");
    std::fs::rename(&database, &moved).unwrap();
    symlink(&moved, &database).unwrap();
    let refused = StoredLedger::open(fixture.options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Directory(_)), "{refused:?}");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let fixture = Fixture::new();
    fixture.open().await.close().await.unwrap();
    fixture.tamper("PRAGMA user_version = 99").await;
    let refused = StoredLedger::open(fixture.options()).await.unwrap_err();
    let OpenError::NewerSchema { found: 99, known } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(known, SCHEMA_VERSION);
}

#[tokio::test]
async fn a_closed_ledger_refuses_and_leaves_open_calls_to_the_next_start() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    record
        .append(vec![started(asked.id)], Durability::Durable)
        .await
        .unwrap();
    ledger.close().await.unwrap();
    let refused = ledger.open(&asked, NOW).await.err().unwrap();
    assert_eq!(refused.kind(), LedgerErrorKind::Unavailable);
    let (again, recovery) = fixture.recover().await;
    assert_eq!(recovery.settled_unknown, [asked.id]);
    let call = again.call(&tenant(), asked.id).await.unwrap().unwrap();
    assert_eq!(
        call.summary,
        "the process that ran this call ended before it recorded the result; it may have taken effect"
    );
}

#[tokio::test]
async fn places_for_open_calls_are_bounded_and_given_back() {
    let fixture = Fixture::new();
    let mut options = fixture.options();
    options.max_calls_in_flight = 2;
    options.open_wait = Duration::from_millis(50);
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    for _ in 0..5 {
        let (_, first) = whole_call(&ledger, "s1", "x").await;
        let (_, second) = whole_call(&ledger, "s1", "y").await;
        first.settled().await.unwrap();
        second.settled().await.unwrap();
    }
    let asked = request("s1", "sample", json!({}));
    let _one = ledger.open(&asked, NOW).await.unwrap();
    let asked = request("s1", "sample", json!({}));
    let _two = ledger.open(&asked, NOW).await.unwrap();
    let asked = request("s1", "sample", json!({}));
    let refused = ledger.open(&asked, NOW).await.err().unwrap();
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
}

/// Before the first release the record had another form. It is not read, and not touched.
#[tokio::test]
async fn a_record_from_before_the_first_release_is_refused_in_plain_words() {
    let fixture = Fixture::new();
    fixture.open().await.close().await.unwrap();
    fixture
        .tamper("PRAGMA application_id = 0; PRAGMA user_version = 5")
        .await;
    let refused = StoredLedger::open(fixture.options()).await.unwrap_err();
    let says = refused.to_string();
    assert!(says.contains("move its directory away"), "{says}");
    assert_eq!(fixture.number("PRAGMA user_version").await, 5);
    // It was that and nothing else.
    let put_back =
        format!("PRAGMA application_id = 0x68616674; PRAGMA user_version = {SCHEMA_VERSION}");
    EngineFixture::tamper(&fixture, &put_back).await;
    fixture.open().await.close().await.unwrap();
}
