//! Bytes kept by content hash.

use haft_contract::host::{ArtifactId, LedgerErrorKind};

use super::LedgerFixture;
use crate::suite::fixture::works;

/// Written in pieces, read back whole; the name is the BLAKE3 hash of the bytes.
pub async fn an_artifact_comes_back_as_it_was(fixture: impl LedgerFixture) {
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_001).collect();
    let store = fixture.ledger().artifacts();
    let mut writer = works("create", store.create().await);
    for piece in bytes.chunks(70_001) {
        works("write", writer.write(piece).await);
    }
    let id = works("finish", writer.finish().await);
    assert_eq!(id.bytes, bytes.len() as u64);
    assert_eq!(id.hash, *blake3::hash(&bytes).as_bytes());
    let reader = works("open", store.open(id).await);
    assert_eq!(reader.id(), id);
    let read = works("read_at", reader.read_at(0, bytes.len() + 1).await);
    assert!(read == bytes, "other bytes came back");
}

/// The same bytes are stored once.
pub async fn the_same_bytes_are_one_artifact(fixture: impl LedgerFixture) {
    let first = keep(&fixture, b"the same").await;
    let second = keep(&fixture, b"the same").await;
    let empty = keep(&fixture, b"").await;
    assert_eq!(first, second);
    assert_ne!(first, empty);
    assert_eq!(fixture.kept_artifacts().await, 2);
}

/// Reads start at any offset; fewer bytes than requested mean the end.
pub async fn artifacts_are_read_in_ranges(fixture: impl LedgerFixture) {
    let id = keep(&fixture, b"0123456789").await;
    let reader = works("open", fixture.ledger().artifacts().open(id).await);
    for (offset, len, expected) in [
        (0, 3, "012"),
        (7, 3, "789"),
        (8, 50, "89"),
        (10, 1, ""),
        (99, 1, ""),
    ] {
        let read = works("read_at", reader.read_at(offset, len).await);
        assert_eq!(read, expected.as_bytes(), "{len} at {offset}");
    }
}

/// A writer that is dropped leaves no artifact and no temporary bytes.
pub async fn an_unfinished_artifact_leaves_nothing(fixture: impl LedgerFixture) {
    let store = fixture.ledger().artifacts();
    let mut writer = works("create", store.create().await);
    works("write", writer.write(b"half").await);
    drop(writer);
    assert_eq!(fixture.kept_artifacts().await, 0);
}

/// A name without stored bytes is not found.
pub async fn a_missing_artifact_is_not_found(fixture: impl LedgerFixture) {
    let id = ArtifactId {
        hash: [7; 32],
        bytes: 1,
    };
    match fixture.ledger().artifacts().open(id).await {
        Ok(_) => panic!("an artifact nobody kept was opened"),
        Err(error) => assert_eq!(error.kind(), LedgerErrorKind::NotFound, "{error}"),
    }
}

/// A finished artifact is durable.
pub async fn an_artifact_survives_reopening(mut fixture: impl LedgerFixture) {
    let id = keep(&fixture, b"kept").await;
    fixture.reopen().await;
    let reader = works("open", fixture.ledger().artifacts().open(id).await);
    assert_eq!(works("read_at", reader.read_at(0, 100).await), b"kept");
}

async fn keep(fixture: &impl LedgerFixture, bytes: &[u8]) -> ArtifactId {
    let store = fixture.ledger().artifacts();
    let mut writer = works("create", store.create().await);
    works("write", writer.write(bytes).await);
    works("finish", writer.finish().await)
}
