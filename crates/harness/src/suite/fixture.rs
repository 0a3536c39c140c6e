//! What a back end supplies to be tested, and helpers the cases share.

use std::{fmt::Debug, sync::OnceLock};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileReader, Operations, OpsError, Tier},
};
use tokio_util::sync::CancellationToken;

use crate::memory::MemoryTree;

/// A fresh, empty workspace on some back end, and access behind its back. One fixture serves one
/// case. Paths are relative to the workspace; parents are created as needed.
#[allow(
    async_fn_in_trait,
    reason = "suites run on one thread and need no `Send`"
)]
pub trait BackendFixture {
    /// The operations under test.
    fn operations(&self) -> Operations;

    /// The tier processes are started in.
    fn tier(&self) -> Tier {
        *self.operations().tiers.first().expect("a tier")
    }

    /// Writes a file in place: an existing file keeps its identity, as when an editor writes to it.
    async fn put(&self, path: &str, bytes: &[u8]);

    /// Makes a directory.
    async fn put_directory(&self, path: &str);

    /// Makes a symlink with this target text.
    async fn put_symlink(&self, path: &str, target: &str);

    /// Makes something that is not a regular file: a FIFO if the back end has them.
    async fn put_special(&self, path: &str);

    /// Sets the mode of a file.
    async fn set_mode(&self, path: &str, mode: u32);

    /// The bytes of a regular file; `None` if there is none.
    async fn bytes(&self, path: &str) -> Option<Vec<u8>>;

    /// The names in a directory, including hidden ones, sorted.
    async fn names(&self, path: &str) -> Vec<String>;

    /// Puts a file outside the workspace and returns the absolute path a symlink would name.
    async fn put_outside(&self, name: &str, bytes: &[u8]) -> String;

    /// The bytes of a file outside the workspace; `None` if there is none.
    async fn outside_bytes(&self, name: &str) -> Option<Vec<u8>>;
}

/// The in-memory back end, tested by its own suites and an example of a fixture.
#[derive(Default)]
pub struct MemoryFixture {
    tree: MemoryTree,
    outside: MemoryTree,
}

impl MemoryFixture {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }
}

impl BackendFixture for MemoryFixture {
    fn operations(&self) -> Operations {
        self.tree.operations()
    }

    async fn put(&self, path: &str, bytes: &[u8]) {
        self.tree.put(path, bytes);
    }

    async fn put_directory(&self, path: &str) {
        self.tree.put_directory(path);
    }

    async fn put_symlink(&self, path: &str, target: &str) {
        self.tree.put_symlink(path, target);
    }

    async fn put_special(&self, path: &str) {
        self.tree.put_special(path);
    }

    async fn set_mode(&self, path: &str, mode: u32) {
        self.tree.set_mode(path, mode);
    }

    async fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.tree.bytes(path)
    }

    async fn names(&self, path: &str) -> Vec<String> {
        let prefix = if path == "." {
            String::new()
        } else {
            format!("{path}/")
        };
        let paths = self.tree.paths();
        let below = paths.iter().filter_map(|name| name.strip_prefix(&prefix));
        below
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect()
    }

    async fn put_outside(&self, name: &str, bytes: &[u8]) -> String {
        self.outside.put(name, bytes);
        format!("/outside/{name}")
    }

    async fn outside_bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.outside.bytes(name)
    }
}

/// A path in the workspace.
pub(super) fn at(path: &str) -> WorkPath {
    WorkPath::relative(path).expect("a path")
}

/// Asserts that something failed, and how.
#[track_caller]
pub(super) fn fails<T>(what: &str, result: Result<T, OpsError>, kind: ErrorKind) {
    fails_as(what, result, &[kind]);
}

/// Asserts that something failed in one of several ways.
#[track_caller]
pub(super) fn fails_as<T>(what: &str, result: Result<T, OpsError>, kinds: &[ErrorKind]) {
    match result {
        Ok(_) => panic!("{what}: it should have failed with {kinds:?}"),
        Err(error) => assert!(
            kinds.contains(&error.kind()),
            "{what}: expected {kinds:?}, got {:?}: {error}",
            error.kind()
        ),
    }
}

/// Asserts that something succeeded.
#[track_caller]
pub(super) fn works<T, E: Debug>(what: &str, result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{what}: {error:?}"),
    }
}

/// A token that never fires.
pub(super) fn never() -> &'static CancellationToken {
    static NEVER: OnceLock<CancellationToken> = OnceLock::new();
    NEVER.get_or_init(CancellationToken::new)
}

/// Reads an open file to its end, in pieces.
pub(super) async fn read_all(reader: &dyn FileReader) -> Vec<u8> {
    const PIECE: usize = 64 << 10;
    let mut whole = Vec::new();
    let mut buffer = Vec::new();
    loop {
        let read = reader.read_at(whole.len() as u64, PIECE, buffer).await;
        buffer = works("read_at", read);
        whole.extend_from_slice(&buffer);
        if buffer.len() < PIECE {
            return whole;
        }
    }
}
