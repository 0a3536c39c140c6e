//! Artifacts: content hash, one copy, a cap, retention, and no way in for a planted link.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::host::{ArtifactId, Clock, LedgerErrorKind, Timestamp};
use haft_ledger::{ExpiringArtifacts, LedgerOptions, MAX_ARTIFACT_BYTES, Retention, StoredLedger};

use crate::support::Fixture;

async fn keep(artifacts: &Arc<dyn ExpiringArtifacts>, bytes: &[u8]) -> ArtifactId {
    let mut writer = artifacts.create().await.unwrap();
    for part in bytes.chunks(7) {
        writer.write(part).await.unwrap();
    }
    writer.finish().await.unwrap()
}

/// Makes an artifact as old as one written at this second.
fn date(fixture: &Fixture, id: ArtifactId, second: u64) {
    let hex = id.hex();
    let place = format!("artifacts/{}/{}", &hex[..2], &hex[2..]);
    let file = std::fs::File::options()
        .write(true)
        .open(fixture.directory().join(place))
        .unwrap();
    let written = std::time::UNIX_EPOCH + Duration::from_secs(second);
    file.set_modified(written).unwrap();
}

pub(crate) fn kept(fixture: &Fixture) -> Vec<PathBuf> {
    kept_in(&fixture.directory())
}

pub(crate) fn kept_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![directory.join("artifacts")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(".swept") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn the_same_bytes_are_kept_once_under_their_hash() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let bytes = b"what the command printed";
    let id = keep(&artifacts, bytes).await;
    assert_eq!(keep(&artifacts, bytes).await, id);
    assert_eq!(id.hash, *blake3::hash(bytes).as_bytes());
    let hex = id.hex();
    let place = format!("artifacts/{}/{}", &hex[..2], &hex[2..]);
    assert_eq!(kept(&fixture), [fixture.directory().join(place)]);
    let artifact = artifacts.open(id).await.unwrap();
    assert_eq!(artifact.read_at(5, 3).await.unwrap(), b"the");
    assert_eq!(artifact.read_at(20, 100).await.unwrap(), b"nted");
    assert_eq!(artifact.read_at(1_000, 10).await.unwrap(), b"");
}

/// What a workspace holds is kept many files at a time, and the same content once.
#[tokio::test]
async fn many_are_kept_at_once_in_order() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let texts: Vec<Vec<u8>> = (0..500)
        .map(|n| format!("{}", n / 2).into_bytes())
        .collect();
    let ids = artifacts.keep_all(texts.clone()).await.unwrap();
    assert_eq!(
        kept(&fixture).len(),
        250,
        "nothing twice, nothing left aside"
    );
    for (id, text) in ids.iter().zip(&texts) {
        let artifact = artifacts.open(*id).await.unwrap();
        assert_eq!(artifact.read_at(0, 100).await.unwrap(), *text);
    }
}

/// A pre-image that is still needed does not expire because the file it is of never changes.
#[tokio::test]
async fn what_is_renewed_is_young_and_what_is_gone_is_told() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let (old, used) = (
        keep(&artifacts, b"old").await,
        keep(&artifacts, b"used").await,
    );
    let again = keep(&artifacts, b"kept again").await;
    for id in [old, used, again] {
        date(&fixture, id, 1_000);
    }
    let absent = ArtifactId {
        hash: [1; 32],
        bytes: 4,
    };
    let other_size = ArtifactId { bytes: 9, ..used };
    let here = artifacts.renew(vec![absent, used, other_size]).await;
    assert_eq!(here.unwrap(), [false, true, false]);
    artifacts
        .keep_all(vec![b"kept again".to_vec()])
        .await
        .unwrap();
    // As much later as things are kept: whatever was written in this test stays.
    let retention = Retention::default();
    let later = Duration::from_secs(2_000) + retention.kept_for;
    let now = Timestamp(i64::try_from(later.as_micros()).unwrap());
    let expired = artifacts.expire(now, retention).await.unwrap();
    assert_eq!(expired.removed, 1);
    assert_eq!(
        artifacts.renew(vec![old, used, again]).await.unwrap(),
        [false, true, true]
    );
}

/// Adding up is not expiring: what a process that is gone was writing stays too.
#[tokio::test]
async fn adding_up_what_is_kept_removes_nothing() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    assert_eq!(artifacts.kept_bytes().await.unwrap(), 0);
    for text in ["one", "three", "one"] {
        let id = keep(&artifacts, text.as_bytes()).await;
        date(&fixture, id, 1_000);
    }
    let abandoned = fixture.directory().join("artifacts/writing/half");
    let file = std::fs::File::create(&abandoned).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    let before = kept(&fixture);
    assert_eq!(before.len(), 3);
    assert_eq!(artifacts.kept_bytes().await.unwrap(), 8);
    assert_eq!(kept(&fixture), before);
}

#[tokio::test]
async fn a_dropped_writer_leaves_nothing() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let mut writer = artifacts.create().await.unwrap();
    writer.write(b"half").await.unwrap();
    assert_eq!(kept(&fixture).len(), 1);
    drop(writer);
    assert!(kept(&fixture).is_empty());
    let absent = ArtifactId {
        hash: [1; 32],
        bytes: 4,
    };
    let error = artifacts.open(absent).await.err().unwrap();
    assert_eq!(error.kind(), LedgerErrorKind::NotFound);
}

#[tokio::test]
async fn an_artifact_has_a_cap() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let mut writer = artifacts.create().await.unwrap();
    let too_much = vec![0; usize::try_from(MAX_ARTIFACT_BYTES).unwrap() + 1];
    let error = writer.write(&too_much).await.unwrap_err();
    assert_eq!(error.kind(), LedgerErrorKind::LimitExceeded);
    drop(writer);
    assert!(kept(&fixture).is_empty());
}

#[tokio::test]
async fn retention_removes_the_old_and_then_the_oldest() {
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    let day = 24 * 60 * 60;
    let now = Timestamp(1_800_000_000_000_000);
    let mut ids = Vec::new();
    for age_days in [40_u8, 3, 2, 1] {
        let id = keep(&artifacts, &vec![age_days; 1_000]).await;
        date(&fixture, id, 1_800_000_000 - u64::from(age_days) * day);
        ids.push(id);
    }
    let keep_at_most = |max_total_bytes| Retention {
        kept_for: Duration::from_secs(30 * day),
        max_total_bytes,
    };
    let expired = artifacts.expire(now, keep_at_most(u64::MAX)).await;
    let expired = expired.unwrap();
    assert_eq!((expired.removed, expired.kept_bytes), (1, 3_000));
    assert!(artifacts.open(ids[0]).await.is_err());
    let expired = artifacts.expire(now, keep_at_most(2_000)).await.unwrap();
    assert_eq!((expired.removed, expired.kept_bytes), (1, 2_000));
    assert!(artifacts.open(ids[1]).await.is_err());
    assert!(artifacts.open(ids[2]).await.is_ok());
    assert!(artifacts.open(ids[3]).await.is_ok());
}

/// Nobody has to think of retention: a start removes what is too old, once a day.
#[tokio::test]
async fn a_start_removes_what_is_too_old_once_a_day() {
    let fixture = Fixture::new();
    let open_at = async |second: u64| {
        let options = LedgerOptions {
            clock: Arc::new(At(second)),
            ..fixture.options()
        };
        StoredLedger::open(options).await.unwrap().0
    };
    let (day, start) = (24 * 60 * 60, 1_800_000_000);
    let ledger = open_at(start).await;
    let artifacts = ledger.expiring_artifacts();
    let old = keep(&artifacts, b"old").await;
    let young = keep(&artifacts, b"young").await;
    date(&fixture, old, start - 40 * day);
    date(&fixture, young, start - day);
    ledger.close().await.unwrap();

    let ledger = open_at(start + day / 2).await;
    assert!(
        ledger.expiring_artifacts().open(old).await.is_ok(),
        "too soon"
    );
    ledger.close().await.unwrap();

    let ledger = open_at(start + 2 * day).await;
    assert!(ledger.expiring_artifacts().open(old).await.is_err());
    assert!(ledger.expiring_artifacts().open(young).await.is_ok());
    ledger.close().await.unwrap();
}

/// A clock that stands still at one second.
struct At(u64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.0).unwrap() * 1_000_000)
    }
}

#[tokio::test]
async fn sl_13_a_planted_link_is_not_followed() {
    let fixture = Fixture::new();
    let outside = tempfile::tempdir().unwrap();
    let bytes = b"spilled output";
    let hex = blake3::hash(bytes).to_hex().to_string();
    let ledger = fixture.open().await;
    let artifacts = ledger.expiring_artifacts();
    // The artifact's own name is a link to somebody's file: the rename replaces the link.
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let folder = fixture.directory().join("artifacts").join(&hex[..2]);
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&victim, folder.join(&hex[2..])).unwrap();
    let id = keep(&artifacts, bytes).await;
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    let read = artifacts.open(id).await.unwrap();
    assert_eq!(read.read_at(0, 100).await.unwrap(), bytes);
    let kept = std::fs::symlink_metadata(folder.join(&hex[2..])).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
    // The folder is a link to somewhere else: refused, nothing is written there.
    std::fs::remove_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(outside.path(), &folder).unwrap();
    let mut writer = artifacts.create().await.unwrap();
    writer.write(bytes).await.unwrap();
    assert!(writer.finish().await.is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    for folder in ["", "artifacts", "artifacts/writing", "writers"] {
        let mode = std::fs::metadata(fixture.directory().join(folder)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o700, "{folder}");
    }
}

#[tokio::test]
async fn au_05_an_artifact_changed_in_place_is_refused() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let artifacts = ledger.expiring_artifacts();
    let id = keep(&artifacts, b"what was there before").await;
    artifacts.open(id).await.unwrap();
    // As long as it was, and found by the same store that has compared it before.
    std::fs::write(&kept(&fixture)[0], b"what mallory put here").unwrap();
    let error = artifacts.open(id).await.err().unwrap();
    assert_eq!(error.kind(), LedgerErrorKind::Corrupt);
    assert!(error.to_string().contains("changed after it was kept"));
    let again = fixture.open().await.expiring_artifacts();
    let error = again.open(id).await.err().unwrap();
    assert_eq!(error.kind(), LedgerErrorKind::Corrupt);
    // Keeping the same bytes again puts it right.
    assert_eq!(keep(&artifacts, b"what was there before").await, id);
    let whole = artifacts.open(id).await.unwrap();
    assert_eq!(whole.read_at(0, 4).await.unwrap(), b"what");
}

/// An artifact is what a file held or a command printed, and undo needs those bytes. What holds is that
/// nobody else reads it; what is taken out of output, is taken out before it comes here.
#[tokio::test]
async fn au_12_an_artifact_is_as_it_was_and_private() {
    let secret = "AKIAQQQQWWWWEEEERRRR";
    let fixture = Fixture::new();
    let artifacts = fixture.open().await.expiring_artifacts();
    keep(&artifacts, format!("id = \"{secret}\"\n").as_bytes()).await;
    let [path] = kept(&fixture).try_into().unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        format!("id = \"{secret}\"\n")
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&fixture.directory()), 0o700);
}
