//! One workspace of each kind, so that every behaviour is shown on all back ends.

use std::sync::Arc;

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{Content, ErrorKind, Outcome};
use haft_testkit::{Harness, harness::HarnessBuilder};
use haft_tools::builtins;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Workspace {
    pub(crate) harness: Harness,
    /// Absent for the workspace in memory.
    pub(crate) folder: Option<TempDir>,
}

impl Workspace {
    /// A workspace in memory and one on disk.
    pub(crate) fn each() -> [Self; 2] {
        [Self::memory(), Self::local()]
    }

    pub(crate) fn memory() -> Self {
        Self {
            harness: Harness::memory().tools(builtins()).build(),
            folder: None,
        }
    }

    pub(crate) fn local() -> Self {
        Self::local_with(|builder| builder)
    }

    pub(crate) fn local_with(change: impl FnOnce(HarnessBuilder) -> HarnessBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
        let builder = Harness::on(backend.operations()).tools(builtins());
        Self {
            harness: change(builder).build(),
            folder: Some(folder),
        }
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        match &self.folder {
            None => self.harness.tree.put(path, bytes),
            Some(folder) => {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
        }
    }

    pub(crate) fn put_symlink(&self, path: &str, target: &str) {
        match &self.folder {
            None => self.harness.tree.put_symlink(path, target),
            Some(folder) => {
                std::os::unix::fs::symlink(target, folder.path().join(path)).unwrap();
            }
        }
    }

    /// Removes a file or a whole directory.
    pub(crate) fn delete(&self, path: &str) {
        match &self.folder {
            None => self.harness.tree.delete(path),
            Some(folder) => {
                let path = folder.path().join(path);
                if path.is_dir() {
                    std::fs::remove_dir_all(path).unwrap();
                } else {
                    std::fs::remove_file(path).unwrap();
                }
            }
        }
    }

    pub(crate) fn set_mode(&self, path: &str, mode: u32) {
        match &self.folder {
            None => self.harness.tree.set_mode(path, mode),
            Some(folder) => {
                use std::os::unix::fs::PermissionsExt as _;
                let permissions = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(folder.path().join(path), permissions).unwrap();
            }
        }
    }

    pub(crate) fn mode(&self, path: &str) -> u32 {
        match &self.folder {
            None => self.harness.tree.mode(path).unwrap() & 0o7777,
            Some(folder) => {
                use std::os::unix::fs::PermissionsExt as _;
                let metadata = std::fs::metadata(folder.path().join(path)).unwrap();
                metadata.permissions().mode() & 0o7777
            }
        }
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.folder {
            None => self.harness.tree.bytes(path),
            Some(folder) => std::fs::read(folder.path().join(path)).ok(),
        }
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path).expect("a file")).unwrap()
    }

    /// The root as the tools show it.
    pub(crate) fn root(&self) -> String {
        match &self.folder {
            None => haft_testkit::memory::ROOT.to_owned(),
            Some(folder) => folder.path().display().to_string(),
        }
    }

    pub(crate) async fn succeed(&self, tool: &str, input: Value) -> Arc<Outcome> {
        self.harness.succeed(tool, input).await
    }

    /// A call that must fail, and how.
    pub(crate) async fn refuse(&self, tool: &str, input: Value, kind: ErrorKind) -> Arc<Outcome> {
        let shown = input.to_string();
        let outcome = self.harness.fail(tool, input).await;
        let failure = outcome.error.as_ref().expect("a failure");
        assert_eq!(failure.kind, kind, "{shown}: {failure}");
        outcome
    }
}

/// Where in the input the failure lies.
pub(crate) fn pointer(outcome: &Outcome) -> &str {
    let failure = outcome.error.as_ref().expect("a failure");
    failure.at.as_deref().unwrap_or_default()
}

/// The structured output.
pub(crate) fn structured(outcome: &Outcome) -> &Value {
    outcome.structured.as_ref().expect("structured output")
}

/// The structured output of a command, without the time it took.
pub(crate) fn without_duration(outcome: &Outcome) -> Value {
    let mut output = structured(outcome).clone();
    let duration = output
        .as_object_mut()
        .expect("an object")
        .remove("duration_ms");
    assert!(duration.is_some_and(|duration| duration.is_u64()));
    output
}

/// The first piece of text.
pub(crate) fn first_text(outcome: &Outcome) -> &str {
    outcome
        .content
        .iter()
        .find_map(Content::as_text)
        .unwrap_or_default()
}

/// Makes a call with more and more milliseconds, until they were enough to print something: how
/// long a command takes to come to that is for the machine to say.
pub(crate) async fn long_enough(call: impl AsyncFn(u64) -> Arc<Outcome>) -> Arc<Outcome> {
    for time in [700, 7_000, 70_000] {
        let outcome = call(time).await;
        if outcome.content.iter().any(|part| {
            let text = Content::as_text(part).unwrap_or_default();
            !text.is_empty() && !text.starts_with('[')
        }) {
            return outcome;
        }
    }
    panic!("nothing was printed")
}
