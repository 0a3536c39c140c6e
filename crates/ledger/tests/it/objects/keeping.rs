//! Contents are kept once and whole, in one request or in parts, with little in memory; what was
//! changed is refused.

use std::sync::Arc;

use haft_contract::host::{ArtifactId, LedgerErrorKind};
use haft_ledger::MAX_ARTIFACT_BYTES;

use super::{ObjectFixture, keep, key, long_content};

const MIB: usize = 1024 * 1024;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn two_writers_of_the_same_bytes_leave_one_object() {
    let fixture = ObjectFixture::new();
    let (one, other) = (fixture.artifacts().await, fixture.artifacts().await);
    for bytes in [3_000, 3 * MIB, 18 * MIB] {
        let content = long_content(bytes);
        let (first, second) = tokio::join!(keep(&one, &content), keep(&other, &content));
        assert_eq!(first, second);
        assert_eq!(first.hash, *blake3::hash(&content).as_bytes());
        let reader = one.open(second).await.unwrap();
        let end = reader.read_at(bytes as u64 - 5, 100).await.unwrap();
        assert_eq!(end, content[bytes - 5..]);
    }
    assert_eq!(fixture.kept(), 3);
    let stored = fixture.server.objects("kept/");
    assert_eq!(stored.len(), 3, "nothing but contents: {stored:?}");
}

/// More writers than there is room for parts in memory: each waits for room, and none for ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn many_writers_of_many_parts_all_finish() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let content = long_content(19 * MIB);
    let writers: Vec<_> = (0..12_usize)
        .map(|number| {
            let (artifacts, content) = (Arc::clone(&artifacts), content[number..].to_vec());
            tokio::spawn(async move { keep(&artifacts, &content).await })
        })
        .collect();
    for writer in writers {
        let id = writer.await.unwrap();
        assert_eq!(artifacts.open(id).await.unwrap().id(), id);
    }
    assert_eq!(fixture.kept(), 12);
}

/// Twenty parts, written piece by piece: they come back as they were, and only a few are ever in memory.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn many_parts_need_little_memory() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    // The first request makes what every later one uses.
    keep(&artifacts, b"first").await;
    let before = peak_bytes();
    let bytes = 160 * MIB - 77;
    let mut source = blake3::Hasher::new().finalize_xof();
    let mut piece = vec![0; MIB];
    let mut writer = artifacts.create().await.unwrap();
    let mut left = bytes;
    while left > 0 {
        piece.truncate(left);
        source.fill(&mut piece);
        writer.write(&piece).await.unwrap();
        left -= piece.len();
    }
    let id = writer.finish().await.unwrap();
    let sent = peak_bytes() - before;
    assert_eq!(id.bytes, bytes as u64);
    let reader = artifacts.open(id).await.unwrap();
    let grown = peak_bytes() - before;
    println!("memory grew by {sent} bytes for sending, {grown} with comparing");
    assert!(grown < 80 * MIB, "{grown} bytes for an artifact of {bytes}");
    // Across the border of two parts, and at the end.
    for offset in [0, 8 * MIB as u64 - 3, bytes as u64 - 9] {
        let mut expected = [0; 9];
        let mut source = blake3::Hasher::new().finalize_xof();
        source.set_position(offset);
        source.fill(&mut expected);
        assert_eq!(reader.read_at(offset, 9).await.unwrap(), expected);
    }
    assert_eq!(fixture.kept(), 2);
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn many_contents_are_kept_at_once_and_each_once() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let contents = || (0..100_u8).map(|number| vec![number % 50; 2_000]);
    let ids = artifacts.keep_all(contents().collect()).await.unwrap();
    for (id, content) in ids.iter().zip(contents()) {
        assert_eq!(id.hash, *blake3::hash(&content).as_bytes());
    }
    assert_eq!(fixture.kept(), 50);
    let absent = ArtifactId {
        hash: [1; 32],
        bytes: 2_000,
    };
    let asked = vec![ids[3], absent, ids[49]];
    let here = artifacts.renew(asked).await.unwrap();
    assert_eq!(here, [true, false, true]);
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn au_05_an_object_that_was_changed_is_refused() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let id = keep(&artifacts, b"what was there before").await;
    let reader = artifacts.open(id).await.unwrap();
    assert_eq!(reader.read_at(0, 4).await.unwrap(), b"what");
    for forged in [&b"what mallory put here"[..], b"short", b""] {
        fixture.server.put(&key(id), forged);
        // By the reader that is open, by the store that has compared it before, and by another one.
        let others = fixture.artifacts().await;
        for error in [
            reader.read_at(0, 4).await.unwrap_err(),
            artifacts.open(id).await.err().unwrap(),
            others.open(id).await.err().unwrap(),
        ] {
            assert_eq!(error.kind(), LedgerErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("changed after it was kept"));
        }
    }
    // Keeping the same bytes again puts it right, for the open reader too.
    assert_eq!(keep(&artifacts, b"what was there before").await, id);
    assert_eq!(artifacts.open(id).await.unwrap().id(), id);
    assert_eq!(reader.read_at(5, 3).await.unwrap(), b"was");
    fixture.server.remove(&key(id));
    let error = artifacts.open(id).await.err().unwrap();
    assert_eq!(error.kind(), LedgerErrorKind::NotFound, "{error}");
    let error = reader.read_at(0, 4).await.unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::NotFound, "{error}");
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn an_object_has_a_cap() {
    let fixture = ObjectFixture::new();
    let artifacts = fixture.artifacts().await;
    let mut writer = artifacts.create().await.unwrap();
    writer.write(&vec![0; 9 * MIB]).await.unwrap();
    let too_much = vec![0; usize::try_from(MAX_ARTIFACT_BYTES).unwrap()];
    let error = writer.write(&too_much).await.unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::LimitExceeded);
    drop(writer);
    let error = artifacts.keep_all(vec![too_much, vec![0]]).await;
    // The first is allowed; the second is small.
    assert_eq!(error.unwrap().len(), 2);
    let error = artifacts.keep_all(vec![vec![0; 256 * MIB + 1]]).await;
    assert_eq!(error.unwrap_err().kind(), LedgerErrorKind::LimitExceeded);
    assert_eq!(fixture.kept(), 2);
}

/// The most memory this process has had, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<usize>().unwrap() * 1024
}
