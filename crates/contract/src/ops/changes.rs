//! What a command changed in the workspace, found by comparing before and after.
//!
//! A back end that can scan its whole workspace cheaply offers this. It keeps file contents in the
//! artifact store, so that a change made by a command can be undone like one made by a tool.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{FileVersion, OpsError};
use crate::{
    artifact::{ArtifactId, ArtifactStore},
    future::BoxFuture,
    path::WorkPath,
};

/// Compares a workspace before and after a command.
pub trait WorkspaceChanges: Send + Sync {
    /// Scans the workspace before a command runs, and keeps the contents it has not kept yet.
    fn begin(
        &self,
        keep: Arc<dyn ArtifactStore>,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Box<dyn ChangeScan>, OpsError>>;
}

/// A scan of the workspace from before a command.
pub trait ChangeScan: Send {
    /// Scans again, after the command and everything it started has ended.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Changes, OpsError>>;
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The files that differ, in the order of their paths.
    pub files: Vec<ChangedFile>,
    /// How many files were scanned.
    pub looked_at: u64,
    /// What was not covered and why; absent when everything was.
    pub missed: Option<String>,
}

/// A file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The file.
    pub path: WorkPath,
    /// Its version before; absent when it did not exist.
    pub before: Option<KeptVersion>,
    /// Its version after; absent when it is gone.
    pub after: Option<KeptVersion>,
}

/// A version of a file, and its bytes if they could be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptVersion {
    /// The version.
    pub version: FileVersion,
    /// Its bytes; absent when it is too large to keep.
    pub artifact: Option<ArtifactId>,
    /// Its permission bits, as returned by [`FileReader::own_mode`](super::FileReader::own_mode).
    pub mode: u32,
}
