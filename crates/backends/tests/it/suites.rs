//! The suites that every back end passes.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use haft_contract::ops::{Operations, Tier};
use haft_testkit::suite::fixture::BackendFixture;

use crate::workspace::{Workspace, sandbox_options};

/// A fresh workspace, and the way behind its back.
pub(crate) struct LocalFixture(pub(crate) Workspace, Tier);

impl LocalFixture {
    pub(crate) fn new() -> Self {
        Self::with(Workspace::new(), Tier::Host)
    }

    /// One whose children run in a sandbox.
    fn sandboxed(tier: Tier) -> Self {
        Self::with(Workspace::sandboxed(sandbox_options()), tier)
    }

    fn with(workspace: Workspace, tier: Tier) -> Self {
        fs::remove_file(workspace.outside.join("secret")).unwrap();
        Self(workspace, tier)
    }

    fn place(&self, path: &str) -> PathBuf {
        let place = self.0.root.join(path);
        make_parent(&place);
        place
    }
}

fn make_parent(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
}

impl BackendFixture for LocalFixture {
    fn operations(&self) -> Operations {
        self.0.backend.operations()
    }

    fn tier(&self) -> Tier {
        self.1
    }

    async fn put(&self, path: &str, bytes: &[u8]) {
        fs::write(self.place(path), bytes).unwrap();
    }

    async fn put_directory(&self, path: &str) {
        fs::create_dir_all(self.place(path)).unwrap();
    }

    async fn put_symlink(&self, path: &str, target: &str) {
        symlink(target, self.place(path)).unwrap();
    }

    async fn put_special(&self, path: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mkfifoat(rustix::fs::CWD, self.place(path), mode).unwrap();
    }

    async fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.place(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.0.root.join(path)).ok()
    }

    async fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.root.join(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    async fn put_outside(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.outside.join(name);
        make_parent(&path);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    async fn outside_bytes(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.0.outside.join(name)).ok()
    }
}

mod files {
    use super::LocalFixture;
    haft_testkit::file_suite!(LocalFixture::new());
}

mod process {
    use super::LocalFixture;
    haft_testkit::process_suite!(LocalFixture::new());
}

mod search {
    use super::LocalFixture;
    haft_testkit::search_suite!(LocalFixture::new());
}

/// Child processes in tier T2, and that files and search are none the worse for it.
mod t2 {
    mod files {
        use super::super::{LocalFixture, Tier};
        haft_testkit::file_suite!(
            LocalFixture::sandboxed(Tier::T2),
            #[ignore = "ci: needs bubblewrap"]
        );
    }

    mod process {
        use super::super::{LocalFixture, Tier};
        haft_testkit::process_suite!(
            LocalFixture::sandboxed(Tier::T2),
            #[ignore = "ci: needs bubblewrap"]
        );
    }

    mod search {
        use super::super::{LocalFixture, Tier};
        haft_testkit::search_suite!(
            LocalFixture::sandboxed(Tier::T2),
            #[ignore = "ci: needs bubblewrap"]
        );
    }
}

/// The same in tier T1.
mod t1 {
    mod files {
        use super::super::{LocalFixture, Tier};
        haft_testkit::file_suite!(LocalFixture::sandboxed(Tier::T1));
    }

    mod search {
        use super::super::{LocalFixture, Tier};
        haft_testkit::search_suite!(LocalFixture::sandboxed(Tier::T1));
    }

    mod process {
        use super::super::{LocalFixture, Tier};
        haft_testkit::process_suite!(LocalFixture::sandboxed(Tier::T1));
    }
}
