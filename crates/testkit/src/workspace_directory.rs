//! A directory for a workspace with something worth stealing beside it, and the checks that attacks
//! on a real back end end with. Opens no back end: that is for the crate under test.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the machine from outside the jail"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{ChildExit, OpsError, ProcessHandle},
};
use tempfile::TempDir;

/// What the file `secret` beside the workspace holds.
pub const SECRET: &str = "a secret outside the workspace";

/// A directory for a workspace, and one beside it that holds a secret. Both end with it.
#[derive(Debug)]
pub struct WorkspaceDirectory {
    /// The workspace, `ws`.
    pub root: PathBuf,
    /// What lies beside it, `outside`.
    pub outside: PathBuf,
    _temp: TempDir,
}

impl WorkspaceDirectory {
    /// Makes both in a temporary directory.
    pub fn new(temp: TempDir) -> Self {
        let base = temp.path().canonicalize().unwrap();
        let (root, outside) = (base.join("ws"), base.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), SECRET).unwrap();
        Self {
            root,
            outside,
            _temp: temp,
        }
    }

    /// Writes a file of the workspace, and the directories above it.
    pub fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a file of the workspace holds.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Asserts that nothing beside the workspace was changed, added or removed.
    #[track_caller]
    pub fn outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret"], "something was made or removed outside");
        let secret = fs::read_to_string(self.outside.join("secret")).unwrap();
        assert_eq!(secret, SECRET);
    }

    /// Asserts that no temporary file of Haft was left in the workspace.
    #[track_caller]
    pub fn no_leftovers(&self) {
        assert_no_leftovers(&self.root);
    }
}

#[track_caller]
fn assert_no_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (name, path) = (entry.file_name(), entry.path());
        assert!(
            !name.to_string_lossy().starts_with(".haft-"),
            "{} was left behind",
            path.display()
        );
        if entry.file_type().unwrap().is_dir() {
            assert_no_leftovers(&path);
        }
    }
}

/// A path relative to the workspace.
pub fn at(path: &str) -> WorkPath {
    WorkPath::relative(path).unwrap()
}

/// Asserts that an operation failed in this way, with a message that names no path of the machine.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, OpsError>, expect: ErrorKind) {
    match result {
        Ok(value) => panic!("expected {expect}, got {value:?}"),
        Err(error) => {
            assert_eq!(error.kind(), expect, "{error}");
            let text = error.to_string();
            assert!(
                !text.contains("/tmp") && !text.contains("/etc") && !text.contains("/proc"),
                "the message names a machine path: {text}"
            );
        }
    }
}

/// Reads a child to its end: what all its streams said, in order, and how it ended.
pub async fn finish(child: &mut dyn ProcessHandle) -> (String, ChildExit) {
    let mut output = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        output.extend(chunk.bytes);
    }
    let exit = child.wait().await.unwrap();
    (String::from_utf8_lossy(&output).into_owned(), exit)
}
