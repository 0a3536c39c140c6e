//! Computes how to put one file back, from the file as it is now, and does it.
//!
//! The preview and the run share the computation, so that what a person was shown is what happens.
//! A file that is not what the calls left is never touched.

use haft_contract::{
    ErrorKind, ToolError, WorkPath,
    context::PastChanges,
    host::ArtifactId,
    ops::{Expected, FileKind, FileOps, FileStat, FileVersion, OpsError, WriteFile, WriteMode},
};

use super::fold::{Chain, FileState, FoldedChange};
use crate::text::display::one_line;

/// How much is read at once.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The largest file that can be restored.
const MAX_RESTORED_BYTES: u64 = 256 * 1024 * 1024;

/// What to do about one file.
pub(super) enum Restoration {
    /// Write its bytes.
    Write {
        /// What it holds now; `None` if there is no file.
        now: Option<PresentFile>,
        /// What it held before.
        bytes: Vec<u8>,
        /// The permission bits it gets.
        mode: WriteMode,
    },
    /// Remove it: the calls created it.
    Remove {
        /// What it holds now.
        now: PresentFile,
    },
    /// Nothing: it is already as it was.
    AsBefore,
    /// Leave it: it is not what the calls left.
    Conflict(Conflict),
    /// It cannot be put back, for this reason.
    Impossible(String),
}

/// A file as it is now.
pub(super) struct PresentFile {
    pub(super) version: FileVersion,
    pub(super) bytes: Vec<u8>,
    mode: u32,
}

/// A file that is not what the calls left.
pub(super) struct Conflict {
    pub(super) reason: &'static str,
    /// What it held before the calls, if known.
    pub(super) before: Option<Vec<u8>>,
    /// What the calls left, if known.
    pub(super) after: Option<Vec<u8>>,
    /// What it holds now.
    pub(super) now: Option<Vec<u8>>,
}

/// Decides what to do about a file.
pub(super) async fn work_out(
    files: &dyn FileOps,
    past: &dyn PastChanges,
    path: &WorkPath,
    change: &FoldedChange,
) -> Result<Restoration, ToolError> {
    let now = match present(files, path).await {
        Ok(now) => now,
        Err(error) if stops_the_call(error.kind()) => return Err(error.into()),
        Err(error) => return Ok(Restoration::Impossible(error.message().to_owned())),
    };
    let before = match kept(past, &change.before).await {
        Ok(before) => before,
        Err(why) => return Ok(Restoration::Impossible(why)),
    };
    if now.as_ref().map(|now| &now.bytes) == before.as_ref() {
        return Ok(Restoration::AsBefore);
    }
    let after = kept(past, &change.after).await.ok().flatten();
    let reason = match (&change.after, &now) {
        _ if change.chain == Chain::Broken => Some("somebody else changed it between these calls"),
        (FileState::Absent, None) => None,
        (FileState::Absent, Some(_)) => Some("it has been created again since"),
        (FileState::File { .. }, None) => Some("it has been removed since"),
        (FileState::File { version, .. }, Some(now)) => {
            let same = *version == now.version || after.as_ref() == Some(&now.bytes);
            (!same).then_some("it has changed since")
        }
        (FileState::Unknown, _) => Some("Haft does not know what the calls left"),
    };
    if let Some(reason) = reason {
        return Ok(Restoration::Conflict(Conflict {
            reason,
            before,
            after,
            now: now.map(|now| now.bytes),
        }));
    }
    Ok(match (before, now) {
        (Some(bytes), now) => Restoration::Write {
            mode: mode(change, now.as_ref()),
            now,
            bytes,
        },
        (None, Some(now)) => Restoration::Remove { now },
        (None, None) => Restoration::AsBefore,
    })
}

/// The permission bits of a restored file: those it had before the calls. If they changed since,
/// somebody may have restricted the file on purpose, so it gets no bit that it does not have now.
fn mode(change: &FoldedChange, now: Option<&PresentFile>) -> WriteMode {
    let Some(before) = change.before.mode() else {
        return WriteMode::AsItIs;
    };
    let as_the_calls_left_it = |now: &PresentFile| match &change.after {
        FileState::File { version, .. } => *version == now.version,
        FileState::Absent | FileState::Unknown => false,
    };
    match now {
        // An access control list in addition to the bits stays as it is too.
        Some(now) if now.mode == before => WriteMode::AsItIs,
        Some(now) if !as_the_calls_left_it(now) => WriteMode::Exactly(before & now.mode),
        Some(_) | None => WriteMode::Exactly(before),
    }
}

/// Restores a file. Fails with a conflict if it changed since it was checked.
pub(super) async fn put_back(
    files: &dyn FileOps,
    path: &WorkPath,
    now: Option<&PresentFile>,
    bytes: &[u8],
    mode: WriteMode,
) -> Result<(), OpsError> {
    let expected = match now {
        Some(now) => Expected::Version(&now.version),
        None => Expected::Absent,
    };
    let write = WriteFile {
        bytes,
        expected,
        mode,
    };
    files.write(path, write).await?;
    Ok(())
}

/// Whether a failure affects more than this file, so that the others would fail too.
pub(super) fn stops_the_call(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Cancelled
            | ErrorKind::Lost
            | ErrorKind::TimedOut
            | ErrorKind::Unavailable
            | ErrorKind::WorkspaceMoved
    )
}

/// What is at a path now. Fails if that is not a file that could be restored.
async fn present(files: &dyn FileOps, path: &WorkPath) -> Result<Option<PresentFile>, OpsError> {
    // The record names files by their real location. A path that now leads elsewhere has become a
    // symlink, or lies behind one, and its target is not what the calls changed.
    let there = files.resolve(path).await?;
    if there.path != *path {
        let message = format!(
            "a symlink leads to `{}` from there now",
            one_line(there.path.as_str())
        );
        return Err(OpsError::new(ErrorKind::Symlink, message));
    }
    let stat: FileStat = match files.stat(path).await {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match stat.kind {
        FileKind::File => {}
        FileKind::Directory | FileKind::Symlink | FileKind::Other => {
            let message = format!("there is a {} now", stat.kind.as_str());
            return Err(OpsError::new(ErrorKind::NotRegularFile, message));
        }
    }
    if stat.size > MAX_RESTORED_BYTES {
        return Err(OpsError::new(ErrorKind::LimitExceeded, too_large()));
    }
    let reader = files.open(path).await?;
    let mut bytes = Vec::new();
    let mut chunk = Vec::new();
    loop {
        chunk = reader
            .read_at(bytes.len() as u64, CHUNK_BYTES, chunk)
            .await?;
        bytes.extend_from_slice(&chunk);
        if chunk.len() < CHUNK_BYTES || bytes.len() as u64 > MAX_RESTORED_BYTES {
            break;
        }
    }
    Ok(Some(PresentFile {
        version: reader.stat().version.clone(),
        mode: reader.own_mode(),
        bytes,
    }))
}

/// What a file held, or why that is unknown.
pub(super) async fn kept(
    past: &dyn PastChanges,
    state: &FileState,
) -> Result<Option<Vec<u8>>, String> {
    match state {
        FileState::Absent => Ok(None),
        FileState::File {
            content: Some(content),
            ..
        } => read(past, *content).await.map(Some),
        FileState::File { content: None, .. } => {
            Err("what it held was too large to keep".to_owned())
        }
        FileState::Unknown => Err("what it held was not kept".to_owned()),
    }
}

/// What was kept, or why that is not available.
pub(super) async fn read(past: &dyn PastChanges, content: ArtifactId) -> Result<Vec<u8>, String> {
    if content.bytes > MAX_RESTORED_BYTES {
        return Err(too_large());
    }
    let Ok(artifact) = past.open(content).await else {
        return Err("what it held is no longer kept".to_owned());
    };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < content.bytes {
        let Ok(chunk) = artifact.read_at(bytes.len() as u64, CHUNK_BYTES).await else {
            return Err("what it held cannot be read".to_owned());
        };
        if chunk.is_empty() {
            return Err("its kept content is no longer complete".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn too_large() -> String {
    format!("it is larger than {} MiB", MAX_RESTORED_BYTES / 1024 / 1024)
}
