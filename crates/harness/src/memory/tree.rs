//! The only state behind the in-memory back end: a tree of nodes, versions and a clock that ticks
//! once per change.
//!
//! Fixture methods on [`MemoryTree`] panic on misuse and follow no links; the rules for tools are
//! in the sibling files.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{Entry, FileKind, FileStat, FileVersion, OpsError},
};

/// The largest file the in-memory back end holds.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// The most symlinks one resolution follows, as in Linux.
pub const MAX_LINKS: usize = 40;

/// The mode of a new file.
const NEW_FILE_MODE: u32 = 0o644;

/// The set-user-id and set-group-id bits, which no write keeps.
pub(super) const SET_ID_BITS: u32 = 0o6000;

/// The moment of the first change, in milliseconds since 1970.
const FIRST_MOMENT_MS: i64 = 1_700_000_000_000;

/// A workspace in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryTree(Arc<Mutex<Tree>>);

/// The nodes by path; the root itself has no entry and every parent of an entry has one.
#[derive(Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    ticks: u64,
    bytes_read: Arc<AtomicU64>,
}

/// What is at a path, and when it was put there.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) what: NodeKind,
    pub(super) mode: u32,
    changed: u64,
}

/// What sort of thing a node is.
#[derive(Clone)]
pub(super) enum NodeKind {
    File(Arc<Vec<u8>>),
    Directory,
    Symlink(String),
    Other,
}

impl MemoryTree {
    /// An empty workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a file there, with its parents, and replaces what was there.
    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        self.place(path, NodeKind::File(Arc::new(bytes.as_ref().to_vec())));
    }

    /// Puts a directory there, with its parents.
    pub fn put_directory(&self, path: &str) {
        self.place(path, NodeKind::Directory);
    }

    /// Puts a symlink there, with its parents. The target is plain text and may lead anywhere.
    pub fn put_symlink(&self, path: &str, target: &str) {
        self.place(path, NodeKind::Symlink(target.to_owned()));
    }

    /// Puts something there that is not a regular file, like a FIFO or a device.
    pub fn put_special(&self, path: &str) {
        self.place(path, NodeKind::Other);
    }

    /// How many bytes were read from files since the last call.
    pub fn take_bytes_read(&self) -> u64 {
        self.lock().bytes_read.swap(0, Ordering::SeqCst)
    }

    /// Sets the mode of the entry there.
    pub fn set_mode(&self, path: &str, mode: u32) {
        let mut tree = self.lock();
        let changed = tree.tick();
        let node = tree
            .nodes
            .get_mut(path)
            .expect("a fixture path that exists");
        node.mode = mode;
        node.changed = changed;
    }

    /// Removes the entry there and everything beneath it.
    pub fn delete(&self, path: &str) {
        self.lock().remove(path);
    }

    /// The bytes of the file there; `None` if there is no regular file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        match &self.lock().nodes.get(path)?.what {
            NodeKind::File(bytes) => Some(bytes.to_vec()),
            NodeKind::Directory | NodeKind::Symlink(_) | NodeKind::Other => None,
        }
    }

    /// The text of the file there; panics if there is none, or if it is not UTF-8.
    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(path).expect("a file")).expect("UTF-8")
    }

    /// The mode of the entry there.
    pub fn mode(&self, path: &str) -> Option<u32> {
        self.lock().nodes.get(path).map(|node| node.mode)
    }

    /// The kind of the entry there.
    pub fn kind(&self, path: &str) -> Option<FileKind> {
        self.lock().nodes.get(path).map(|node| node.what.kind())
    }

    /// Every path in the tree, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.lock().nodes.keys().cloned().collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, path: &str, what: NodeKind) {
        let path = WorkPath::relative(path).expect("a fixture path");
        let mut tree = self.lock();
        tree.make_parents(&path)
            .expect("parents that are directories");
        let mode = tree.get(&path).map(|node| node.mode);
        tree.insert(&path, what, mode);
    }
}

impl NodeKind {
    pub(super) fn kind(&self) -> FileKind {
        match self {
            Self::File(_) => FileKind::File,
            Self::Directory => FileKind::Directory,
            Self::Symlink(_) => FileKind::Symlink,
            Self::Other => FileKind::Other,
        }
    }
}

impl Node {
    pub(super) fn stat(&self) -> FileStat {
        FileStat {
            kind: self.what.kind(),
            size: self.size(),
            mode: self.mode,
            version: self.version(),
            modified_ms: self.modified_ms(),
        }
    }

    pub(super) fn version(&self) -> FileVersion {
        FileVersion::new(format!("memory-{}", self.changed))
    }

    pub(super) fn entry(&self, path: &str) -> Entry {
        Entry {
            path: path.to_owned(),
            escaped: false,
            kind: self.what.kind(),
            size: self.size(),
            modified_ms: self.modified_ms(),
        }
    }

    fn size(&self) -> u64 {
        match &self.what {
            NodeKind::File(bytes) => bytes.len() as u64,
            NodeKind::Directory | NodeKind::Symlink(_) | NodeKind::Other => 0,
        }
    }

    fn modified_ms(&self) -> i64 {
        FIRST_MOMENT_MS.saturating_add_unsigned(self.changed)
    }
}

impl Tree {
    /// The counter for bytes read from an open file.
    pub(super) fn read_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_read)
    }

    /// The node at a path, without following links.
    pub(super) fn get(&self, path: &WorkPath) -> Option<&Node> {
        self.nodes.get(path.as_str())
    }

    /// The node at a path that must not cross a symlink; `None` if there is none.
    pub(super) fn locate(&self, path: &WorkPath) -> Result<Option<&Node>, OpsError> {
        let mut parent = path.parent();
        let mut missing = false;
        while let Some(directory) = parent.filter(|parent| !parent.is_root()) {
            match self.get(&directory).map(|node| &node.what) {
                None => missing = true,
                Some(NodeKind::Directory) => {}
                Some(NodeKind::Symlink(_)) => return Err(crosses_a_symlink().on(path)),
                Some(NodeKind::File(_) | NodeKind::Other) => {
                    return Err(OpsError::new(
                        ErrorKind::NotDirectory,
                        format!("`{directory}` is not a directory"),
                    )
                    .on(path));
                }
            }
            parent = directory.parent();
        }
        Ok(if missing { None } else { self.get(path) })
    }

    /// The node at a path; an error if there is none, or if it is a symlink.
    pub(super) fn existing(&self, path: &WorkPath) -> Result<&Node, OpsError> {
        let node = self
            .locate(path)?
            .ok_or_else(|| OpsError::new(ErrorKind::NotFound, "there is nothing there").on(path))?;
        match node.what {
            NodeKind::Symlink(_) => Err(crosses_a_symlink().on(path)),
            NodeKind::File(_) | NodeKind::Directory | NodeKind::Other => Ok(node),
        }
    }

    /// The regular file at a path and its bytes.
    pub(super) fn file(&self, path: &WorkPath) -> Result<(&Node, &Arc<Vec<u8>>), OpsError> {
        if path.is_root() {
            return Err(not_a_regular_file().on(path));
        }
        let node = self.existing(path)?;
        match &node.what {
            NodeKind::File(bytes) => Ok((node, bytes)),
            NodeKind::Directory | NodeKind::Symlink(_) | NodeKind::Other => {
                Err(not_a_regular_file().on(path))
            }
        }
    }

    /// Checks that a directory is at a path.
    pub(super) fn directory(&self, path: &WorkPath) -> Result<(), OpsError> {
        if path.is_root() {
            return Ok(());
        }
        match self.existing(path)?.what {
            NodeKind::Directory => Ok(()),
            NodeKind::File(_) | NodeKind::Symlink(_) | NodeKind::Other => {
                Err(OpsError::new(ErrorKind::NotDirectory, "it is not a directory").on(path))
            }
        }
    }

    /// Makes the missing parents of a path.
    pub(super) fn make_parents(&mut self, path: &WorkPath) -> Result<(), OpsError> {
        self.locate(path)?;
        let mut missing = Vec::new();
        let mut parent = path.parent();
        while let Some(directory) = parent.filter(|parent| !parent.is_root()) {
            if self.get(&directory).is_none() {
                missing.push(directory.clone());
            }
            parent = directory.parent();
        }
        for directory in missing.into_iter().rev() {
            self.insert(&directory, NodeKind::Directory, None);
        }
        Ok(())
    }

    /// Puts a node at a path whose parents exist. `mode` is the old node's mode, if kept.
    pub(super) fn insert(&mut self, path: &WorkPath, what: NodeKind, mode: Option<u32>) -> &Node {
        let new = match what {
            NodeKind::Directory => 0o755,
            NodeKind::Symlink(_) => 0o777,
            NodeKind::File(_) | NodeKind::Other => NEW_FILE_MODE,
        };
        let node = Node {
            what,
            mode: mode.unwrap_or(new),
            changed: self.tick(),
        };
        let entry = self.nodes.entry(path.as_str().to_owned());
        entry.insert_entry(node).into_mut()
    }

    /// Removes a path and everything beneath it.
    pub(super) fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.nodes
            .retain(|name, _| name != path && !name.starts_with(&below));
    }

    /// Moves a path and everything beneath it.
    pub(super) fn rename(&mut self, from: &WorkPath, to: &WorkPath) {
        let below = format!("{from}/");
        let moved: Vec<(String, Node)> = self
            .nodes
            .extract_if(.., |name, _| {
                name == from.as_str() || name.starts_with(&below)
            })
            .collect();
        self.remove(to.as_str());
        for (name, node) in moved {
            let rest = name.strip_prefix(from.as_str()).unwrap_or_default();
            self.nodes.insert(format!("{to}{rest}"), node);
        }
    }

    /// Everything beneath a directory, sorted by path, without following symlinks.
    pub(super) fn beneath(&self, directory: &WorkPath) -> impl Iterator<Item = (&str, &Node)> {
        let prefix = if directory.is_root() {
            String::new()
        } else {
            format!("{directory}/")
        };
        self.nodes
            .iter()
            .filter(move |(name, _)| name.starts_with(&prefix))
            .map(|(name, node)| (name.as_str(), node))
    }

    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }
}

pub(super) fn crosses_a_symlink() -> OpsError {
    OpsError::new(ErrorKind::Symlink, "the path crosses a symlink")
}

pub(super) fn not_a_regular_file() -> OpsError {
    OpsError::new(ErrorKind::NotRegularFile, "it is not a regular file")
}
