//! What a command changed in the workspace, found by comparing before and after.
//!
//! A back end that can look at its whole workspace cheaply offers this. It keeps what files held in
//! the artifact store, so that a change made by a command can be undone like one made by a tool.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{FileVersion, OpsError};
use crate::{
    future::BoxFuture,
    host::{ArtifactId, ArtifactStore},
    path::WorkPath,
};

/// Compares a workspace before and after a command.
pub trait WorkspaceChanges: Send + Sync {
    /// Looks at the workspace, and keeps what it has not kept yet, before a command runs.
    fn begin(
        &self,
        keep: Arc<dyn ArtifactStore>,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Box<dyn ChangeScan>, OpsError>>;
}

/// A look at the workspace before a command.
pub trait ChangeScan: Send {
    /// Looks again, after the command and everything it started has ended.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Changes, OpsError>>;
}

/// What a comparison found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// The files that are not what they were, in the order of their paths.
    pub files: Vec<ChangedFile>,
    /// How many files were looked at.
    pub looked_at: u64,
    /// What was not covered and why; absent when everything was.
    pub missed: Option<String>,
}

/// A file that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The file.
    pub path: WorkPath,
    /// What it was; absent when it did not exist.
    pub before: Option<KeptVersion>,
    /// What it is; absent when it is gone.
    pub after: Option<KeptVersion>,
}

/// A version of a file, and its bytes where they could be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptVersion {
    /// The version.
    pub version: FileVersion,
    /// Its bytes; absent when it is too large to keep.
    pub artifact: Option<ArtifactId>,
    /// Its permission bits, as [`FileReader::own_mode`](super::FileReader::own_mode) says them.
    pub mode: u32,
}
