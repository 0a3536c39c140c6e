//! Copying: complete or untouched, with progress that only grows.

use std::sync::{Arc, Mutex, atomic::Ordering};

use haft_contract::{
    ErrorKind,
    ops::{CopyFile, Overwrite},
};
use tokio_util::sync::CancellationToken;

use super::{
    reach::{anything, quiet},
    write::{large, watch},
};
use crate::suite::fixture::{BackendFixture, at, fails, never, works};

/// Copies all bytes and the permission bits, and creates the destination's missing parents.
pub async fn copy_is_complete_and_keeps_the_mode(fixture: impl BackendFixture) {
    let bytes: Vec<u8> = (0..=255).cycle().take(300_001).collect();
    fixture.put("from.bin", &bytes).await;
    fixture.set_mode("from.bin", 0o750).await;
    fixture.put("empty", b"").await;
    let files = fixture.operations().files;
    let (from, to) = (at("from.bin"), at("new/place/to.bin"));
    let written = works("copy", files.copy(&from, &to, quiet(never())).await);
    assert_eq!((written.bytes, written.created), (bytes.len() as u64, true));
    assert_eq!(fixture.bytes("new/place/to.bin").await, Some(bytes));
    let stat = works("stat", files.stat(&to).await);
    assert_eq!((stat.mode & 0o7777, stat.version), (0o750, written.version));
    works(
        "empty",
        files
            .copy(&at("empty"), &at("empty2"), quiet(never()))
            .await,
    );
    assert_eq!(fixture.bytes("empty2").await.as_deref(), Some(&b""[..]));
}

/// Mistake 3: a copy onto itself must not empty the file.
pub async fn copy_onto_itself_is_an_error(fixture: impl BackendFixture) {
    fixture.put("file.txt", b"kept").await;
    let files = fixture.operations().files;
    let path = at("file.txt");
    let copied = files.copy(&path, &path, quiet(never())).await;
    assert!(copied.is_err(), "a file was copied onto itself");
    assert_eq!(
        fixture.bytes("file.txt").await.as_deref(),
        Some(&b"kept"[..])
    );
}

/// A file in the way stays unless replacing was requested.
pub async fn copy_obeys_overwrite(fixture: impl BackendFixture) {
    fixture.put("from.txt", b"from").await;
    fixture.put("to.txt", b"to").await;
    let files = fixture.operations().files;
    let (from, to) = (at("from.txt"), at("to.txt"));
    let refusing = CopyFile {
        overwrite: Overwrite::Never,
        ..quiet(never())
    };
    fails(
        "never",
        files.copy(&from, &to, refusing).await,
        ErrorKind::AlreadyExists,
    );
    assert_eq!(fixture.bytes("to.txt").await.as_deref(), Some(&b"to"[..]));
    let written = works("replace", files.copy(&from, &to, quiet(never())).await);
    assert!(!written.created);
    assert_eq!(fixture.bytes("to.txt").await.as_deref(), Some(&b"from"[..]));
    assert_eq!(fixture.names(".").await, ["from.txt", "to.txt"]);
}

/// Mistake 3: a reader of the destination during a copy sees the old file or the new one.
pub async fn copy_never_truncates_first(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    works("write", files.write(&at("to"), anything(&large(0))).await);
    let (reader, stop) = watch(Arc::clone(&files), "to");
    for number in 1..=20 {
        works(
            "write",
            files.write(&at("from"), anything(&large(number))).await,
        );
        works(
            "copy",
            files.copy(&at("from"), &at("to"), quiet(never())).await,
        );
    }
    stop.store(true, Ordering::SeqCst);
    assert!(
        works("the reader", reader.await) > 0,
        "the reader read nothing"
    );
}

/// Cancelled before: nothing happens. Cancelled during: the old file or the whole new one, and no
/// partial copy next to it.
pub async fn a_cancelled_copy_leaves_the_destination(fixture: impl BackendFixture) {
    let bytes = vec![b'n'; 8 << 20];
    fixture.put("from", &bytes).await;
    fixture.put("to", b"old").await;
    let files = fixture.operations().files;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let copied = files.copy(&at("from"), &at("to"), quiet(&cancel)).await;
    fails("cancelled before", copied, ErrorKind::Cancelled);
    assert_eq!(fixture.bytes("to").await.as_deref(), Some(&b"old"[..]));
    let cancel = CancellationToken::new();
    let copy = CopyFile {
        copied: &|_| cancel.cancel(),
        ..quiet(&cancel)
    };
    match files.copy(&at("from"), &at("to"), copy).await {
        Ok(_) => assert_eq!(fixture.bytes("to").await, Some(bytes)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert_eq!(fixture.bytes("to").await.as_deref(), Some(&b"old"[..]));
        }
    }
    assert_eq!(fixture.names(".").await, ["from", "to"]);
}

/// Progress never decreases, never exceeds the size, and ends at it.
pub async fn copy_reports_progress_upward(fixture: impl BackendFixture) {
    let size = 3 << 20;
    fixture.put("from", &vec![7; size]).await;
    let files = fixture.operations().files;
    let reports = Mutex::new(Vec::new());
    let copy = CopyFile {
        copied: &|bytes| reports.lock().expect("no panic before").push(bytes),
        ..quiet(never())
    };
    works("copy", files.copy(&at("from"), &at("to"), copy).await);
    let reports = reports.into_inner().expect("no panic before");
    assert!(reports.is_sorted(), "{reports:?}");
    assert_eq!(reports.last(), Some(&(size as u64)));
}
