//! Writing and appending: all or nothing, and only over the expected version.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::{
    ErrorKind,
    ops::{Expected, FileOps, WriteFile, WriteMode},
};

use super::reach::anything;
use crate::suite::fixture::{BackendFixture, at, fails, fails_as, read_all, works};

/// How often a file is replaced while another task reads it.
const REPLACEMENTS: usize = 40;

/// Large enough that a write in place would be seen half done.
pub(super) const LARGE: usize = 512 << 10;

/// Reports the bytes, whether the file is new, and the version a later stat gives.
pub async fn a_write_reports_what_it_did(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let path = at("file.txt");
    let first = works("write", files.write(&path, anything(b"12345")).await);
    assert_eq!((first.bytes, first.created), (5, true));
    let second = works("write", files.write(&path, anything(b"123")).await);
    assert_eq!((second.bytes, second.created), (3, false));
    assert_ne!(first.version, second.version);
    assert_eq!(
        works("stat", files.stat(&path).await).version,
        second.version
    );
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"123"[..])
    );
}

/// Missing parents are created, so that a path beneath them works at once.
pub async fn a_write_creates_missing_parents(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let written = files.write(&at("a/b/c/file.txt"), anything(b"x")).await;
    assert!(works("write", written).created);
    assert_eq!(
        fixture.bytes("a/b/c/file.txt").await.as_deref(),
        Some(&b"x"[..])
    );
}

/// A reader at any moment sees the old bytes or the new ones, never a part and never nothing.
pub async fn a_write_is_all_or_nothing(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    works("write", files.write(&at("file"), anything(&large(0))).await);
    let (reader, stop) = watch(Arc::clone(&files), "file");
    for number in 1..=REPLACEMENTS {
        works(
            "write",
            files.write(&at("file"), anything(&large(number))).await,
        );
    }
    stop.store(true, Ordering::SeqCst);
    let reads = works("the reader", reader.await);
    assert!(reads > 0, "the reader read nothing");
}

/// No temporary file stays behind, neither after success nor after refusal.
pub async fn a_write_leaves_no_other_file(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let path = at("folder/file.txt");
    let written = works("write", files.write(&path, anything(b"1")).await);
    works("write", files.write(&path, anything(b"22")).await);
    let stale = WriteFile {
        bytes: b"3",
        expected: Expected::Version(&written.version),
        mode: WriteMode::AsItIs,
    };
    fails(
        "write",
        files.write(&path, stale).await,
        ErrorKind::Conflict,
    );
    assert_eq!(fixture.names("folder").await, ["file.txt"]);
}

/// SL-18: a file that exists keeps its permission bits, but not setuid and setgid.
pub async fn a_write_keeps_the_mode_without_set_id(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    for (before, after) in [(0o600, 0o600), (0o755, 0o755), (0o6755, 0o755)] {
        fixture.put("file", b"old").await;
        fixture.set_mode("file", before).await;
        works("write", files.write(&at("file"), anything(b"new")).await);
        let stat = works("stat", files.stat(&at("file")).await);
        assert_eq!(stat.mode & 0o7777, after, "from {before:o}");
    }
}

/// UN-03: a file can be created with the requested permission bits, whatever the umask; never with
/// setuid and setgid.
pub async fn a_write_can_say_the_mode(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    for (asked, given) in [(0o600, 0o600), (0o666, 0o666), (0o6750, 0o750)] {
        for before in [None, Some(0o644), Some(0o600)] {
            let name = format!("file-{asked:o}-{before:?}");
            if let Some(before) = before {
                fixture.put(&name, b"old").await;
                fixture.set_mode(&name, before).await;
            }
            let write = WriteFile {
                mode: WriteMode::Exactly(asked),
                ..anything(b"new")
            };
            works("write", files.write(&at(&name), write).await);
            let stat = works("stat", files.stat(&at(&name)).await);
            assert_eq!(stat.mode & 0o7777, given, "{asked:o} over {before:?}");
            let reader = works("open", files.open(&at(&name)).await);
            assert_eq!(reader.own_mode(), given);
        }
    }
}

/// PE-25: a file that changed, or was removed, since it was read is left as it is.
pub async fn a_write_expecting_a_version_refuses_another(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"read").await;
    let files = fixture.operations().files;
    let path = at("file.txt");
    let seen = works("stat", files.stat(&path).await).version;
    let expecting = |bytes: &'static [u8]| WriteFile {
        bytes,
        expected: Expected::Version(&seen),
        mode: WriteMode::AsItIs,
    };
    fixture.put("file.txt", b"changed by another").await;
    fails(
        "changed",
        files.write(&path, expecting(b"mine")).await,
        ErrorKind::Conflict,
    );
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"changed by another"[..])
    );
    let gone = [ErrorKind::Conflict, ErrorKind::NotFound];
    fails_as(
        "gone",
        files.write(&at("other.txt"), expecting(b"mine")).await,
        &gone,
    );
    assert_eq!(fixture.names(".").await, ["file.txt"]);
    let now = works("stat", files.stat(&path).await).version;
    let current = WriteFile {
        bytes: b"mine",
        expected: Expected::Version(&now),
        mode: WriteMode::AsItIs,
    };
    works("unchanged", files.write(&path, current).await);
    fails(
        "twice",
        files.write(&path, current).await,
        ErrorKind::Conflict,
    );
}

/// Creating never replaces.
pub async fn a_write_expecting_nothing_refuses_a_file(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"kept").await;
    let files = fixture.operations().files;
    let new = WriteFile {
        bytes: b"new",
        expected: Expected::Absent,
        mode: WriteMode::AsItIs,
    };
    fails(
        "exists",
        files.write(&at("file.txt"), new).await,
        ErrorKind::AlreadyExists,
    );
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
    assert!(works("absent", files.write(&at("new.txt"), new).await).created);
}

/// A write, an append and an outside change each give a version not seen before; reading gives the
/// same one again.
pub async fn every_change_has_its_own_version(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let path = at("file.txt");
    let mut seen = vec![works("write", files.write(&path, anything(b"1")).await).version];
    seen.push(works("append", files.append(&path, b"2").await).version);
    fixture.put("file.txt", b"from outside").await;
    seen.push(works("stat", files.stat(&path).await).version);
    seen.push(works("write", files.write(&path, anything(b"from outside")).await).version);
    let reader = works("open", files.open(&path).await);
    assert_eq!(Some(&reader.stat().version), seen.last());
    for (index, version) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(version), "{version:?} came twice");
    }
}

/// Appending adds at the end, creates a missing file, and reports the version a stat gives.
pub async fn append_adds_and_creates(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    let path = at("logs/file.log");
    fixture.put_directory("logs").await;
    let first = works("append", files.append(&path, b"one\n").await);
    assert_eq!((first.bytes, first.created), (4, true));
    let second = works("append", files.append(&path, b"two\n").await);
    assert_eq!((second.bytes, second.created), (4, false));
    assert_eq!(
        works("stat", files.stat(&path).await).version,
        second.version
    );
    assert_eq!(
        fixture.bytes("logs/file.log").await.as_deref(),
        Some(&b"one\ntwo\n"[..])
    );
}

/// The content of one generation: one byte, repeated.
pub(super) fn large(generation: usize) -> Vec<u8> {
    vec![b'a' + u8::try_from(generation % 26).expect("a small number"); LARGE]
}

/// Reads a file over and over until told to stop; panics if it ever sees half a generation. Returns
/// how often it read.
pub(super) fn watch(
    files: Arc<dyn FileOps>,
    path: &'static str,
) -> (tokio::task::JoinHandle<usize>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let reader = tokio::spawn(async move {
        let mut reads = 0;
        while reads == 0 || !stopped.load(Ordering::SeqCst) {
            let reader = works("open", files.open(&at(path)).await);
            let bytes = read_all(&*reader).await;
            assert_eq!(bytes.len(), LARGE, "a part of a file was seen");
            let first = bytes.first();
            assert!(
                bytes.iter().all(|byte| Some(byte) == first),
                "two generations were mixed"
            );
            reads += 1;
            tokio::task::yield_now().await;
        }
        reads
    });
    (reader, stop)
}
