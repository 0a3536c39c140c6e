//! A workspace at one moment: which files exist, which state each is in, and where its content is
//! kept. Sorted, so that two pictures can be compared in one pass.

use std::time::{SystemTime, UNIX_EPOCH};

use haft_contract::{
    host::ArtifactId,
    ops::{FileKind, FileVersion},
};
use rustix::fs::{FileType, Stat};

use crate::local::{file_kind::kind_of, files::version_of};

/// A file whose change time is this close to the moment it was read may change again without its
/// times changing: file system clocks tick, on some kernels every ten milliseconds.
const TICK_NANOS: i128 = 20_000_000;

/// The same for a file system that stores whole seconds.
const COARSE_TICK_NANOS: i128 = 2_000_000_000;

/// The state of every file at one moment, sorted by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WorkspacePicture {
    directories: Vec<Directory>,
    files: usize,
}

/// The entries of one directory, sorted by name, without subdirectories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// Relative to the workspace; empty for the root.
    pub(super) path: Vec<u8>,
    names: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// One file, symlink or special file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    name_start: u32,
    name_end: u32,
    pub(super) identity: Identity,
    pub(super) content: Content,
}

/// Distinguishes two states of a file. A process that changes content cannot reset the change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: i64,
    pub(super) mode: u32,
    pub(super) modified: (i64, u64),
    pub(super) changed: (i64, u64),
}

/// What is known about a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// It has to be read.
    Unread,
    /// It is in the artifact store.
    Kept {
        /// Its hash; the identity has its length.
        hash: [u8; 32],
        /// When it was kept or renewed, in hours since 1970.
        hour: u32,
        /// Whether a change since then would have changed the identity.
        settled: bool,
        /// Its permission bits as they apply by themselves, without an access control list.
        mode: u32,
    },
    /// The hash of a symlink's target.
    Link([u8; 32]),
    /// It is not kept.
    NotKept(OmissionReason),
    /// It vanished while it was read.
    Gone,
}

/// Why content is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OmissionReason {
    /// Larger than the limit for one file.
    TooLarge,
    /// The operating system did not allow reading it.
    Unreadable,
    /// Other files used up the byte limit.
    OutOfBytes,
    /// Other files used up the time limit.
    OutOfTime,
    /// It kept changing.
    Changing,
    /// The store did not accept it.
    Store,
    /// A FIFO, socket or device.
    NotAFile,
}

/// A moment on the clock that file systems use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileSystemTime(i128);

impl FileSystemTime {
    pub(super) fn get() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0)))
    }

    /// In hours since 1970.
    pub(super) fn hour(self) -> u32 {
        u32::try_from(self.0 / 3_600_000_000_000).unwrap_or(u32::MAX)
    }
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            mode: stat.st_mode,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        kind_of(FileType::from_raw_mode(self.mode))
    }

    /// Its version, as file operations report it.
    pub(super) fn version(&self) -> FileVersion {
        version_of(self.inode, self.size, self.modified, self.changed)
    }

    /// Whether a change after this moment would show in the change time.
    pub(super) fn is_settled(&self, now: FileSystemTime) -> bool {
        let tick = if self.changed.1 == 0 {
            COARSE_TICK_NANOS
        } else {
            TICK_NANOS
        };
        now.0.saturating_sub(self.changed_nanos()) > tick
    }

    /// Whether it changed at this moment or later, as far as the clock shows.
    pub(super) fn changed_since(&self, then: FileSystemTime) -> bool {
        self.changed_nanos().saturating_add(TICK_NANOS) >= then.0
    }

    fn changed_nanos(&self) -> i128 {
        i128::from(self.changed.0)
            .saturating_mul(1_000_000_000)
            .saturating_add(i128::from(self.changed.1))
    }
}

impl Entry {
    /// The artifact with its content.
    pub(super) fn artifact(&self) -> Option<ArtifactId> {
        match self.content {
            Content::Kept { hash, .. } => Some(ArtifactId {
                hash,
                bytes: u64::try_from(self.identity.size).unwrap_or(0),
            }),
            Content::Unread | Content::Link(_) | Content::NotKept(_) | Content::Gone => None,
        }
    }
}

impl Directory {
    pub(super) fn new(path: Vec<u8>) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// Adds an entry; the caller must add names in order.
    pub(super) fn push(&mut self, name: &[u8], identity: Identity, content: Content) {
        // A directory with four gigabytes of names cannot be listed within the time limit.
        let start = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.extend_from_slice(name);
        self.entries.push(Entry {
            name_start: start,
            name_end: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            identity,
            content,
        });
    }

    pub(super) fn name(&self, entry: &Entry) -> &[u8] {
        let range = entry.name_start as usize..entry.name_end as usize;
        self.names.get(range).unwrap_or_default()
    }

    /// The position of a name, or of the first one after it.
    pub(super) fn position(&self, name: &[u8]) -> usize {
        self.entries
            .partition_point(|entry| self.name(entry) < name)
    }

    /// The path of an entry relative to the workspace.
    pub(super) fn path_of(&self, entry: &Entry) -> Vec<u8> {
        let name = self.name(entry);
        let mut path = Vec::with_capacity(self.path.len() + 1 + name.len());
        path.extend_from_slice(&self.path);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn first_name(&self) -> &[u8] {
        self.entries.first().map_or(&[], |entry| self.name(entry))
    }
}

impl WorkspacePicture {
    /// Assembles pieces, each sorted by name; several may belong to one directory.
    pub(super) fn from_pieces(mut pieces: Vec<Directory>) -> Self {
        pieces.sort_by(|a, b| {
            let paths = a.path.cmp(&b.path);
            paths.then_with(|| a.first_name().cmp(b.first_name()))
        });
        let mut directories: Vec<Directory> = Vec::with_capacity(pieces.len());
        let mut files = 0;
        for piece in pieces {
            files += piece.entries.len();
            match directories.last_mut() {
                Some(last) if last.path == piece.path => {
                    for entry in &piece.entries {
                        last.push(piece.name(entry), entry.identity, entry.content);
                    }
                }
                _ => directories.push(piece),
            }
        }
        Self { directories, files }
    }

    /// A copy to modify.
    pub(super) fn copy(&self) -> Self {
        Self {
            directories: self.directories.clone(),
            files: self.files,
        }
    }

    /// How many files there are.
    pub(super) fn files(&self) -> usize {
        self.files
    }

    pub(super) fn directories(&self) -> &[Directory] {
        &self.directories
    }

    pub(super) fn directories_mut(&mut self) -> &mut [Directory] {
        &mut self.directories
    }

    pub(super) fn directory(&self, path: &[u8]) -> Option<&Directory> {
        let at = self
            .directories
            .binary_search_by(|directory| directory.path.as_slice().cmp(path))
            .ok()?;
        self.directories.get(at)
    }

    /// Adds entries of directories that may already exist here, in any order.
    pub(super) fn add(&mut self, more: Vec<Directory>) {
        if more.is_empty() {
            return;
        }
        let mut pieces = std::mem::take(&mut self.directories);
        for added in more {
            for entry in &added.entries {
                let mut one = Directory::new(added.path.clone());
                one.push(added.name(entry), entry.identity, entry.content);
                pieces.push(one);
            }
        }
        // Pieces of one directory may overlap now, so entries are sorted one by one.
        *self = Self::from_pieces(pieces);
        for directory in &mut self.directories {
            let Directory { names, entries, .. } = directory;
            let name = |entry: &Entry| {
                let range = entry.name_start as usize..entry.name_end as usize;
                names.get(range).unwrap_or_default()
            };
            if !entries.is_sorted_by_key(name) {
                entries.sort_by(|a, b| name(a).cmp(name(b)));
            }
        }
    }

    /// Removes what vanished while it was read.
    pub(super) fn drop_gone(&mut self) {
        let mut files = 0;
        for directory in &mut self.directories {
            directory
                .entries
                .retain(|entry| entry.content != Content::Gone);
            files += directory.entries.len();
        }
        self.files = files;
    }
}
