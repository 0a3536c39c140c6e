//! A workspace whose children are sandboxed by the helper program of this build.

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::ops::{ChildExit, Spawn};
use haft_sandbox::{SandboxOptions, helper::Helper};
use haft_testkit::{helper_program, workspace_directory::finish};

pub(crate) struct SandboxedWorkspace {
    _temp: tempfile::TempDir,
    backend: LocalBackend,
}

impl SandboxedWorkspace {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            sandbox: SandboxOptions {
                helper: Helper::Path(helper_program()),
                ..SandboxOptions::default()
            },
            ..LocalOptions::default()
        };
        let backend = LocalBackend::open(temp.path(), options).unwrap();
        Self {
            _temp: temp,
            backend,
        }
    }

    /// Runs a child to its end; what all its streams said, in order, and how it ended.
    pub(crate) async fn run(&self, spawn: Spawn) -> (String, ChildExit) {
        let processes = self.backend.operations().processes;
        let mut child = processes.spawn(spawn).await.unwrap();
        finish(&mut *child).await
    }
}
