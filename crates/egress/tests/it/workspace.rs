//! A workspace whose children are sandboxed by the helper program of this build.

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::ops::{ChildExit, ProcessHandle, Spawn};
use haft_sandbox::{SandboxOptions, helper::Helper};
use haft_testkit::helper_program;

pub(crate) struct Workspace {
    _temp: tempfile::TempDir,
    backend: LocalBackend,
}

impl Workspace {
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
        let mut child: Box<dyn ProcessHandle> = processes.spawn(spawn).await.unwrap();
        let mut output = Vec::new();
        while let Some(chunk) = child.next_chunk().await {
            output.extend(chunk.bytes);
        }
        let exit = child.wait().await.unwrap();
        (String::from_utf8_lossy(&output).into_owned(), exit)
    }
}
