//! Containers to work in: the one that `.ci/container` started, which sees the temporary directory
//! at the same path, and containers of a test's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use haft_backends::container::{
    ContainerBackend, ContainerName, ContainerOptions, ContainerProgram,
};
use haft_sandbox::helper::Helper;
pub(crate) use haft_testkit::container_engine::program;
use haft_testkit::container_engine::{self, SHARED};

use crate::{remote::fixture::RemoteFixture, suites::LocalFixture};

/// Options with which a connection to a container succeeds.
pub(crate) fn options(container: &str) -> ContainerOptions {
    let mut options = ContainerOptions::new(ContainerName::parse(container).unwrap());
    options.program = ContainerProgram::At(program());
    options.connect_timeout = haft_testkit::PATIENCE;
    options.helper = Helper::Path(env!("CARGO_BIN_EXE_haft-helper").into());
    options
}

/// A workspace in the container that all tests share.
pub(crate) async fn fixture() -> RemoteFixture {
    let place = LocalFixture::new();
    let root = place.0.root.to_str().unwrap();
    let operations = ContainerBackend::connect(options(SHARED), root)
        .await
        .unwrap();
    RemoteFixture::with(place, operations, Box::new(()))
}

/// Calls the program; returns what it printed.
pub(crate) fn podman(arguments: &[&str]) -> String {
    let ran = Command::new(program()).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A container of a test's own, with a file system that nothing was brought into yet.
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    _directory: tempfile::TempDir,
}

impl Container {
    /// Starts it.
    pub(crate) fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        let template = container_engine::directory().join("template");
        let copied = Command::new("cp")
            .arg("-a")
            .args([&template, &root])
            .status()
            .unwrap();
        assert!(copied.success());
        let name = format!(
            "haft-{}",
            directory.path().file_name().unwrap().to_str().unwrap()
        )
        .replace('.', "");
        let mut arguments = vec!["run", "--detach", "--name", &name];
        arguments.extend("--userns keep-id --network none --no-hosts --ulimit host".split(' '));
        arguments.extend(["--volume", "/usr:/usr:ro"]);
        arguments.extend(more);
        arguments.extend(["--rootfs", root.to_str().unwrap()]);
        arguments.extend(["/usr/bin/sleep", "infinity"]);
        podman(&arguments);
        Self {
            name,
            root,
            _directory: directory,
        }
    }

    /// The names of what was brought into it.
    pub(crate) fn brought(&self) -> Vec<String> {
        names(&self.root.join(".haft"))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new(program())
            .args(["rm", "--force", "--time", "0", &self.name])
            .output();
        // What was brought there belongs to a user of the container, whom only Podman can be.
        let _ = Command::new(program())
            .args(["unshare", "rm", "-rf"])
            .arg(&self.root)
            .output();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
