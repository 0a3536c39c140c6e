//! A local workspace in a directory with a secret beside it, and its file operations in few words.

use std::{ops::Deref, sync::Arc};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::ops::{
    CopyFile, Expected, FileOps, FileStat, ListQuery, Listing, OpsError, Overwrite, ResolvedPath,
    WriteFile, WriteMode, WrittenFile,
};
use haft_sandbox::{Profile, SandboxOptions, helper::Helper};
use haft_testkit::workspace_directory::WorkspaceDirectory;
pub(crate) use haft_testkit::workspace_directory::{SECRET, at, refused};
use tokio_util::sync::CancellationToken;

pub(crate) struct Workspace {
    directory: WorkspaceDirectory,
    pub(crate) backend: LocalBackend,
    pub(crate) files: Arc<dyn FileOps>,
}

impl Workspace {
    /// A workspace whose children are not confined.
    pub(crate) fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// A workspace whose children can be sandboxed.
    pub(crate) fn sandboxed(sandbox: SandboxOptions) -> Self {
        Self::sandboxed_in(tempfile::tempdir().unwrap(), sandbox)
    }

    /// The same in a directory of the caller's choice.
    pub(crate) fn sandboxed_in(temp: tempfile::TempDir, sandbox: SandboxOptions) -> Self {
        let options = LocalOptions {
            sandbox,
            ..LocalOptions::default()
        };
        Self::with(temp, options)
    }

    /// A workspace on a file system in memory, where twenty thousand synced writes take seconds.
    pub(crate) fn in_memory() -> Self {
        Self::within(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn within(temp: tempfile::TempDir) -> Self {
        Self::with(temp, LocalOptions::default())
    }

    /// The same with options of the caller's choice.
    pub(crate) fn with(temp: tempfile::TempDir, options: LocalOptions) -> Self {
        let directory = WorkspaceDirectory::new(temp);
        let backend = LocalBackend::open(&directory.root, options).unwrap();
        Self {
            directory,
            files: backend.operations().files,
            backend,
        }
    }

    pub(crate) async fn resolve(&self, path: &str) -> Result<ResolvedPath, OpsError> {
        self.files.resolve(&at(path)).await
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<FileStat, OpsError> {
        self.files.stat(&at(path)).await
    }

    pub(crate) async fn read(&self, path: &str) -> Result<String, OpsError> {
        let file = self.files.open(&at(path)).await?;
        let bytes = file.read_at(0, 1 << 20, Vec::new()).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) async fn write(&self, path: &str, text: &str) -> Result<WrittenFile, OpsError> {
        self.write_expecting(path, text, Expected::Anything).await
    }

    pub(crate) async fn write_expecting(
        &self,
        path: &str,
        text: &str,
        expected: Expected<'_>,
    ) -> Result<WrittenFile, OpsError> {
        let write = WriteFile {
            bytes: text.as_bytes(),
            expected,
            mode: WriteMode::AsItIs,
        };
        self.files.write(&at(path), write).await
    }

    pub(crate) async fn copy(
        &self,
        from: &str,
        to: &str,
        overwrite: Overwrite,
    ) -> Result<WrittenFile, OpsError> {
        let copy = CopyFile {
            overwrite,
            copied: &|_| {},
            cancel: &CancellationToken::new(),
        };
        self.files.copy(&at(from), &at(to), copy).await
    }

    pub(crate) async fn list(&self, path: &str, depth: usize) -> Result<Listing, OpsError> {
        let query = ListQuery {
            depth,
            limit: 1000,
            respect_ignores: false,
            withheld: &[],
            cancel: &CancellationToken::new(),
        };
        self.files.list(&at(path), query).await
    }
}

impl Deref for Workspace {
    type Target = WorkspaceDirectory;

    fn deref(&self) -> &WorkspaceDirectory {
        &self.directory
    }
}

/// Sandboxes set up by the helper program of this build.
pub(crate) fn sandbox_options() -> SandboxOptions {
    SandboxOptions {
        helper: Helper::Path(env!("CARGO_BIN_EXE_haft-helper").into()),
        profile: Profile::default(),
        ..SandboxOptions::default()
    }
}
