//! A workspace with something worth stealing beside it, and the checks every attack ends with.

use std::{fs, path::PathBuf};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    ErrorKind, WorkPath,
    ops::{
        ChildExit, Expected, FileStat, OpsError, ProcessHandle, Spawn, WriteFile, WriteMode,
        WrittenFile,
    },
};
use haft_sandbox::{Profile, SandboxOptions, helper::Helper};
use haft_testkit::helper_program;

pub(crate) const SECRET: &str = "a secret outside the workspace";

pub(crate) struct Workspace {
    _temp: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) backend: LocalBackend,
}

/// Reads a child to its end; what all its streams said, in order, and how it ended.
pub(crate) async fn finish(child: &mut dyn ProcessHandle) -> (String, ChildExit) {
    let mut output = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        output.extend(chunk.bytes);
    }
    let exit = child.wait().await.unwrap();
    (String::from_utf8_lossy(&output).into_owned(), exit)
}

impl Workspace {
    /// `ws` is the workspace; `outside` lies beside it and holds a secret.
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

    fn within(temp: tempfile::TempDir) -> Self {
        Self::with(temp, LocalOptions::default())
    }

    /// The same with options of the caller's choice.
    pub(crate) fn with(temp: tempfile::TempDir, options: LocalOptions) -> Self {
        let base = temp.path().canonicalize().unwrap();
        let (root, outside) = (base.join("ws"), base.join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), SECRET).unwrap();
        let backend = LocalBackend::open(&root, options).unwrap();
        Self {
            _temp: temp,
            root,
            outside,
            backend,
        }
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
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

    /// Nothing beside the workspace was changed, added or removed.
    pub(crate) fn outside_is_untouched(&self) {
        let names: Vec<_> = fs::read_dir(&self.outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["secret"], "something was made or removed outside");
        assert_eq!(
            fs::read_to_string(self.outside.join("secret")).unwrap(),
            SECRET
        );
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

pub(crate) fn at(path: &str) -> WorkPath {
    WorkPath::relative(path).unwrap()
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, OpsError>, expect: ErrorKind) {
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
