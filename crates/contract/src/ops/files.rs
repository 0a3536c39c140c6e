//! Files of one workspace.
//!
//! Every method except [`FileOps::resolve`] refuses a path that contains symlinks, so a path that
//! is swapped for a link after it was resolved fails closed. Only regular files are opened.

use std::fmt;

use tokio_util::sync::CancellationToken;

use super::OpsError;
use crate::{future::BoxFuture, path::WorkPath};

/// File operations of one workspace.
pub trait FileOps: Send + Sync {
    /// Follows every symlink beneath the root and returns the resolved path. For a path that does
    /// not exist, its nearest existing parent is followed and the rest is kept as written. Fails
    /// when it would leave the workspace, or when the root was replaced since it was opened.
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>>;

    /// What is at a path, without following a final symlink.
    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>>;

    /// Opens a regular file for reading. Devices, FIFOs and sockets are refused at once.
    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>>;

    /// Replaces or creates a file atomically (temporary file, fsync, rename in its directory).
    /// Creates missing parents. A replaced file grants nobody more than before: it keeps its mode,
    /// without setuid and setgid, and its access control list; where its group or its list cannot
    /// be kept, the group gets no more than everybody has.
    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        write: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>>;

    /// Appends to a regular file, creating it when absent.
    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>>;

    /// Lists a directory, sorted by name, to a depth and a limit.
    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>>;

    /// Creates a directory and its missing parents. Succeeds if it already exists.
    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Removes what is at a path; never follows a symlink.
    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        scope: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Renames within the workspace, creating the destination's missing parents.
    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Removes a regular file of exactly this version. Anything that somebody else puts there or
    /// writes into it meanwhile is not lost: it stays, or is restored, and the result is a
    /// conflict.
    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Renames a regular file of exactly this version to a free name, with the same guarantee.
    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>>;

    /// Copies a regular file. The destination is complete or untouched, never truncated first.
    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>>;
}

/// An open regular file. Reads see the file that was opened, even if its name now leads elsewhere.
pub trait FileReader: Send + Sync {
    /// The file's state when it was opened.
    fn stat(&self) -> &FileStat;

    /// The permission bits that by themselves grant nobody more than the file does. Fewer than in
    /// [`FileReader::stat`] if the file also has an access control list.
    fn own_mode(&self) -> u32 {
        self.stat().mode
    }

    /// Reads up to `len` bytes at an offset into `buffer`, which is cleared first and returned, so
    /// that one allocation serves a whole scan. Fewer bytes than `len` mean the end of file.
    fn read_at(
        &self,
        offset: u64,
        len: usize,
        buffer: Vec<u8>,
    ) -> BoxFuture<'_, Result<Vec<u8>, OpsError>>;
}

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The path without symlinks.
    pub path: WorkPath,
    /// What is there; absent when nothing is.
    pub stat: Option<FileStat>,
    /// Why this path is protected against writing, if the back end knows a reason that the spelling
    /// does not show (it lies in a git directory, or differs from a protected name only by case in
    /// a case-folding directory).
    pub protected: Option<String>,
}

/// A file's identity and state at one moment. Equal versions mean the same content for all
/// practical purposes: inode, size and both change times.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FileVersion(String);

impl FileVersion {
    /// Wraps a back end's own notation.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The notation, for storing.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStat {
    /// What sort of thing it is.
    pub kind: FileKind,
    /// Its size in bytes; zero unless it is a regular file.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// Its version.
    pub version: FileVersion,
    /// When it was last changed, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// What sort of thing is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
    /// A device, FIFO or socket.
    Other,
}

impl FileKind {
    /// The word used in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Other => "other",
        }
    }
}

/// New content for a file.
#[derive(Debug, Clone, Copy)]
pub struct WriteFile<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// What must be there for the write to happen.
    pub expected: Expected<'a>,
    /// The permission bits it gets.
    pub mode: WriteMode,
}

/// Which permission bits a written file gets. Set-user-id and set-group-id are never among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Those of the file it replaces; for a new file, the user's default.
    AsItIs,
    /// Exactly these.
    Exactly(u32),
}

/// What must be at a path for a write to happen.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// Anything, or nothing.
    Anything,
    /// Nothing: the file must not exist.
    Absent,
    /// A file of exactly this version.
    Version(&'a FileVersion),
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// The version after the write.
    pub version: FileVersion,
    /// Bytes written.
    pub bytes: u64,
    /// Whether the write created the file.
    pub created: bool,
}

/// How to list a directory.
#[derive(Debug, Clone, Copy)]
pub struct ListQuery<'a> {
    /// How many levels; 1 lists only the directory itself.
    pub depth: usize,
    /// The most entries to return.
    pub limit: usize,
    /// Whether to honour `.gitignore` and similar files.
    pub respect_ignores: bool,
    /// Glob patterns of paths to leave out because reading them is denied.
    pub withheld: &'a [String],
    /// Stops a long listing.
    pub cancel: &'a CancellationToken,
}

/// A listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The entries, sorted by path.
    pub entries: Vec<Entry>,
    /// How many entries the limit left out.
    pub omitted: u64,
}

/// One entry of a listing or a find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path, relative to the workspace. A name that is not UTF-8 is shown escaped and cannot
    /// be addressed.
    pub path: String,
    /// Whether the name had to be escaped.
    pub escaped: bool,
    /// What sort of thing it is.
    pub kind: FileKind,
    /// Its size in bytes; zero unless it is a regular file.
    pub size: u64,
    /// When it was last changed, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// How much to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoveScope {
    /// One file or symlink.
    File,
    /// A directory and everything beneath it.
    Tree,
}

/// Whether something that exists may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// No: the destination must not exist.
    Never,
    /// Yes: it is replaced.
    Replace,
}

/// How to copy a file.
#[derive(Clone, Copy)]
pub struct CopyFile<'a> {
    /// Whether the destination may exist.
    pub overwrite: Overwrite,
    /// Called with the bytes copied so far, at a moderate rate.
    pub copied: &'a (dyn Fn(u64) + Send + Sync),
    /// Stops a long copy; the destination is then untouched.
    pub cancel: &'a CancellationToken,
}
