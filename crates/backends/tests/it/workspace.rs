//! A workspace with something worth stealing beside it, and the checks every attack ends with.

use std::{fs, path::PathBuf, sync::Arc};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    ErrorKind, WorkPath,
    ops::{
        CopyFile, Expected, FileOps, FileStat, ListQuery, Listing, OpsError, Overwrite,
        ResolvedPath, WriteFile, WriteMode, WrittenFile,
    },
};
use haft_sandbox::{Profile, SandboxOptions, helper::Helper};
use tokio_util::sync::CancellationToken;

pub(crate) const SECRET: &str = "a secret outside the workspace";

pub(crate) struct Workspace {
    _temp: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
    pub(crate) backend: LocalBackend,
    pub(crate) files: Arc<dyn FileOps>,
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

    /// A workspace on a file system in memory, where twenty thousand synced writes take seconds.
    pub(crate) fn in_memory() -> Self {
        Self::within(tempfile::tempdir_in("/dev/shm").unwrap())
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
            files: backend.operations().files,
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

    /// No temporary file was left behind.
    pub(crate) fn no_leftovers(&self) {
        let mut waiting = vec![self.root.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                assert!(
                    !name.to_string_lossy().starts_with(".haft-"),
                    "{} was left behind",
                    entry.path().display()
                );
                if entry.file_type().unwrap().is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
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
