//! A local workspace in a directory with a secret beside it, whose children can be sandboxed.

use std::ops::Deref;

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::ops::{
    Expected, FileStat, OpsError, ProcessHandle, Spawn, WriteFile, WriteMode, WrittenFile,
};
use haft_sandbox::{Profile, SandboxOptions, helper::Helper};
pub(crate) use haft_testkit::workspace_directory::{SECRET, at, finish, refused};
use haft_testkit::{helper_program, workspace_directory::WorkspaceDirectory};

pub(crate) struct Workspace {
    directory: WorkspaceDirectory,
    pub(crate) backend: LocalBackend,
}

impl Workspace {
    /// A workspace whose children are not confined.
    pub(crate) fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap(), LocalOptions::default())
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

    /// The same with options of the caller's choice.
    pub(crate) fn with(temp: tempfile::TempDir, options: LocalOptions) -> Self {
        let directory = WorkspaceDirectory::new(temp);
        let backend = LocalBackend::open(&directory.root, options).unwrap();
        Self { directory, backend }
    }

    /// Starts a child.
    pub(crate) async fn start(&self, spawn: Spawn) -> Box<dyn ProcessHandle> {
        let processes = self.backend.operations().processes;
        processes.spawn(spawn).await.unwrap()
    }

    pub(crate) async fn stat(&self, path: &str) -> Result<FileStat, OpsError> {
        self.backend.operations().files.stat(&at(path)).await
    }

    pub(crate) async fn write(&self, path: &str, text: &str) -> Result<WrittenFile, OpsError> {
        let write = WriteFile {
            bytes: text.as_bytes(),
            expected: Expected::Anything,
            mode: WriteMode::AsItIs,
        };
        let files = self.backend.operations().files;
        files.write(&at(path), write).await
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
        helper: Helper::Path(helper_program()),
        profile: Profile::default(),
        ..SandboxOptions::default()
    }
}
