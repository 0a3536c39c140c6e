//! A workspace and a data directory that vanish with the test.

use std::{fs, path::PathBuf};

use haft::{Haft, HaftBuilder};
use tempfile::TempDir;

pub(crate) struct Place {
    pub(crate) workspace: TempDir,
    pub(crate) data: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            workspace: tempfile::tempdir().unwrap(),
            data: tempfile::tempdir().unwrap(),
        }
    }

    /// A place with files in its workspace.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        for (path, content) in files {
            let path = place.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        place
    }

    pub(crate) fn haft(&self) -> HaftBuilder {
        Haft::open(self.workspace.path()).data_dir(self.data.path())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.workspace.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}
