//! Writes what a patch prepared, or undoes what it wrote.
//!
//! Each step names the version it was prepared against, so a file that changed in between stops the
//! patch instead of being overwritten. Removals come last: undoing one restores only a file's
//! content and mode.

use haft_contract::{
    ErrorKind, ToolError, WorkPath,
    ops::{Expected, FileOps, FileVersion, OpsError, Overwrite, RemoveScope, WriteFile, WriteMode},
};

use crate::text::display::one_line;

/// One change to one file.
pub(super) enum Step {
    /// Creates a file.
    Create {
        /// The file.
        path: WorkPath,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Changes a file in place.
    Change {
        /// The file.
        path: WorkPath,
        /// What it held.
        before: Vec<u8>,
        /// What it will hold.
        after: Vec<u8>,
        /// The version it was read at.
        version: FileVersion,
    },
    /// Moves a file and may change it.
    Move {
        /// The file.
        from: WorkPath,
        /// Where it goes.
        to: WorkPath,
        /// What it held.
        before: Vec<u8>,
        /// What it will hold.
        after: Vec<u8>,
        /// The version it was read at.
        version: FileVersion,
    },
    /// Removes a file.
    Remove {
        /// The file.
        path: WorkPath,
        /// What it held.
        bytes: Vec<u8>,
        /// The version it was read at.
        version: FileVersion,
        /// The permission bits it had.
        mode: u32,
    },
}

/// Takes every step, or none.
pub(super) async fn apply_all(files: &dyn FileOps, mut steps: Vec<Step>) -> Result<(), ToolError> {
    steps.sort_by_key(|step| matches!(step, Step::Remove { .. }));
    let mut done: Vec<&Step> = Vec::with_capacity(steps.len());
    for step in &steps {
        if let Err(error) = take(files, step).await {
            return Err(take_all_back(files, &done, error).await);
        }
        done.push(step);
    }
    Ok(())
}

async fn take(files: &dyn FileOps, step: &Step) -> Result<(), OpsError> {
    match step {
        Step::Create { path, bytes } => write(files, path, bytes, Expected::Absent).await,
        Step::Change {
            path,
            after,
            version,
            ..
        } => write(files, path, after, Expected::Version(version)).await,
        Step::Move {
            from,
            to,
            before,
            after,
            version,
        } => {
            files.rename_version(from, to, version).await?;
            if before == after {
                return Ok(());
            }
            let changed = rewrite(files, to, after).await;
            if changed.is_err() {
                // Undoes half a step here; the caller undoes whole steps.
                files.rename(to, from, Overwrite::Never).await?;
            }
            changed
        }
        Step::Remove { path, version, .. } => files.remove_version(path, version).await,
    }
}

async fn take_back(files: &dyn FileOps, step: &Step) -> Result<(), OpsError> {
    match step {
        Step::Create { path, .. } => files.remove(path, RemoveScope::File).await,
        Step::Change { path, before, .. } => rewrite(files, path, before).await,
        Step::Move {
            from,
            to,
            before,
            after,
            ..
        } => {
            if before != after {
                rewrite(files, to, before).await?;
            }
            files.rename(to, from, Overwrite::Never).await
        }
        Step::Remove {
            path, bytes, mode, ..
        } => {
            let write = WriteFile {
                bytes,
                expected: Expected::Absent,
                mode: WriteMode::Exactly(*mode),
            };
            files.write(path, write).await?;
            Ok(())
        }
    }
}

async fn take_all_back(files: &dyn FileOps, done: &[&Step], error: OpsError) -> ToolError {
    let mut left = Vec::new();
    for step in done.iter().rev() {
        if take_back(files, step).await.is_err() {
            left.push(format!("`{}`", one_line(step.path().as_str())));
        }
    }
    if left.is_empty() {
        return ToolError::new(error.kind(), format!("{error}; nothing was changed"))
            .at("/patch")
            .hint("read the files again and send a new patch");
    }
    ToolError::new(
        ErrorKind::Io,
        format!(
            "{error}; these files were changed and could not be restored: {}",
            left.join(", ")
        ),
    )
    .hint("read them before going on")
}

impl Step {
    fn path(&self) -> &WorkPath {
        match self {
            Self::Create { path, .. } | Self::Change { path, .. } | Self::Remove { path, .. } => {
                path
            }
            Self::Move { from, .. } => from,
        }
    }
}

async fn write(
    files: &dyn FileOps,
    path: &WorkPath,
    bytes: &[u8],
    expected: Expected<'_>,
) -> Result<(), OpsError> {
    let write = WriteFile {
        bytes,
        expected,
        mode: WriteMode::AsItIs,
    };
    files.write(path, write).await?;
    Ok(())
}

/// Overwrites the current version; used only where this same call wrote it.
async fn rewrite(files: &dyn FileOps, path: &WorkPath, bytes: &[u8]) -> Result<(), OpsError> {
    let present = files.stat(path).await?;
    write(files, path, bytes, Expected::Version(&present.version)).await
}
