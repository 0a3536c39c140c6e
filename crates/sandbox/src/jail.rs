//! The workspace root as an open directory, and the only way to get from a path to a file.
//!
//! The kernel (`openat2`) resolves every path beneath the held descriptor. No strings are checked
//! anywhere: a path that was safe a moment ago and is a symlink now fails in the very call that
//! opens it. Must not follow a symlink; the files of a back end walk those by hand.

use std::{
    io::Read as _,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use haft_contract::{ErrorKind, WorkPath, ops::OpsError};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat2, statat},
    io::{Errno, retry_on_intr},
};

use crate::errno;

/// Whether paths may lead onto another file system mounted inside the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mounts {
    /// A mount point inside the workspace is outside the workspace.
    #[default]
    Refuse,
    /// The operator vouches for everything mounted inside the workspace.
    Cross,
}

/// Whether a lookup may wait for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Only what is cached: fails with `EAGAIN` instead of waiting, so it may run on an async
    /// thread.
    Cached,
    /// May wait; for the blocking pool.
    Full,
}

/// Identifies a file, whatever its name leads to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// A workspace root, held open.
#[derive(Debug)]
pub struct Jail {
    root: OwnedFd,
    device: u64,
    inode: u64,
    shown: String,
    mounts: Mounts,
    user: u32,
}

impl Jail {
    /// Opens and holds a root directory. Symlinks in the path the operator gave are followed once,
    /// here.
    pub fn open(root: &Path, mounts: Mounts) -> std::io::Result<Self> {
        let real = std::fs::canonicalize(root)?;
        let shown = real
            .to_str()
            .ok_or_else(|| std::io::Error::other("its path is not valid UTF-8"))?
            .to_owned();
        let root = openat2(
            CWD,
            real.as_path(),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_MAGICLINKS,
        )?;
        let stat = fstat(&root)?;
        Ok(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            root,
            shown,
            mounts,
            user: rustix::process::geteuid().as_raw(),
        })
    }

    /// The root's path, for display.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether paths may lead onto another file system.
    pub fn mounts(&self) -> Mounts {
        self.mounts
    }

    /// Which directory the root is.
    pub fn identity(&self) -> FileId {
        FileId {
            device: self.device,
            inode: self.inode,
        }
    }

    /// Fails if the root's path no longer names the held directory. Running operations keep working
    /// on the held one; new calls are refused.
    ///
    /// Does not wait for a disk: the held descriptor pins every directory on the way in the cache.
    pub fn check_root(&self) -> Result<(), OpsError> {
        match statat(CWD, self.shown.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if stat.st_dev == self.device && stat.st_ino == self.inode => Ok(()),
            Ok(_) | Err(_) => Err(OpsError::new(
                ErrorKind::WorkspaceMoved,
                "the workspace root was moved or replaced since it was opened; open the workspace \
                 again",
            )),
        }
    }

    /// Opens a path without following any symlink. With `O_PATH | O_NOFOLLOW` a final symlink is
    /// opened itself.
    pub fn open_at(
        &self,
        path: &WorkPath,
        flags: OFlags,
        lookup: Lookup,
    ) -> Result<OwnedFd, Errno> {
        self.open_bytes(path.as_str().as_bytes(), flags, lookup)
    }

    /// Like [`Jail::open_at`], for a relative path found on a walk, whose names may not be UTF-8.
    pub fn open_bytes(&self, path: &[u8], flags: OFlags, lookup: Lookup) -> Result<OwnedFd, Errno> {
        let mut resolve = self.resolve_flags();
        match lookup {
            Lookup::Cached => resolve |= ResolveFlags::CACHED,
            Lookup::Full => {}
        }
        retry_on_intr(|| {
            openat2(
                &self.root,
                path,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
                resolve,
            )
        })
    }

    /// The bytes of a regular file, at most one more than `max_bytes`; `None` if there is none to
    /// read. Follows no link.
    pub(crate) fn read_bytes(&self, path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let path = path.as_os_str().as_bytes();
        let held = self.open_bytes(path, flags, Lookup::Full).ok()?;
        let file = std::fs::File::from(held);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .ok()?;
        Some(bytes)
    }

    /// Opens one name, or a path, beneath a directory that was itself opened through this jail.
    pub fn open_beneath<P: rustix::path::Arg + Copy>(
        &self,
        directory: BorrowedFd<'_>,
        name: P,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        retry_on_intr(|| {
            openat2(
                directory,
                name,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
                self.resolve_flags(),
            )
        })
    }

    /// Opens a directory for reading its entries or for syncing it.
    pub fn open_directory(&self, path: &WorkPath) -> Result<OwnedFd, OpsError> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Lookup::Full)
            .map_err(|errno| errno::on_path(errno, path))
    }

    /// The directory a path is in, opened, and the path's last component.
    pub fn parent<'p>(&self, path: &'p WorkPath) -> Result<Parent<'p>, OpsError> {
        let (parent, name) = split(path)?;
        let directory = self
            .open_at(&parent, OFlags::PATH | OFlags::DIRECTORY, Lookup::Full)
            .map_err(|errno| errno::on_path(errno, path))?;
        Ok(Parent {
            directory,
            name,
            made: Vec::new(),
        })
    }

    /// Like [`Jail::parent`], making the directories that are missing.
    pub fn parent_or_make<'p>(&self, path: &'p WorkPath) -> Result<Parent<'p>, OpsError> {
        let (parent, name) = split(path)?;
        let (directory, made) = self.make_directories(&parent)?;
        Ok(Parent {
            directory,
            name,
            made,
        })
    }

    /// Opens a directory, making it and its missing parents, one held descriptor at a time. Also
    /// returns the directories that gained an entry, for syncing.
    pub fn make_directories(&self, path: &WorkPath) -> Result<(OwnedFd, Vec<OwnedFd>), OpsError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let fail = |errno| errno::on_path(errno, path);
        match self.open_at(path, flags, Lookup::Full) {
            Ok(directory) => return Ok((directory, Vec::new())),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let mut made = Vec::new();
        let mut here = self.open_bytes(b".", flags, Lookup::Full).map_err(fail)?;
        for component in path.components() {
            let next = match self.open_beneath(here.as_fd(), component, flags) {
                Err(Errno::NOENT) => {
                    match mkdirat(&here, component, Mode::from_raw_mode(0o777)) {
                        // Somebody else may make the same directory at the same time.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(fail(errno)),
                    }
                    let next = self
                        .open_beneath(here.as_fd(), component, flags)
                        .map_err(fail)?;
                    made.push(here);
                    next
                }
                other => other.map_err(fail)?,
            };
            here = next;
        }
        Ok((here, made))
    }

    /// Refuses a file that has another hard link and belongs to somebody else: its other name may
    /// lie outside the workspace, linked before the workspace was opened.
    pub fn check_links(&self, stat: &Stat, path: &WorkPath) -> Result<(), OpsError> {
        if self.links_elsewhere(stat) {
            return Err(OpsError::new(
                ErrorKind::AccessDenied,
                "it is a hard link to a file of another user; copy it into the workspace instead",
            )
            .on(path));
        }
        Ok(())
    }

    /// Whether a file is one that [`Jail::check_links`] refuses.
    pub fn links_elsewhere(&self, stat: &Stat) -> bool {
        stat.st_nlink > 1 && stat.st_uid != self.user
    }

    /// The same jail, as another user would hold it.
    #[doc(hidden)]
    #[must_use]
    pub fn of_another_user(mut self) -> Self {
        self.user += 1;
        self
    }

    /// The limits of every lookup: beneath the root, no symlink, no magic link, no other mount
    /// unless the operator vouched for them.
    fn resolve_flags(&self) -> ResolveFlags {
        let flags = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        match self.mounts {
            Mounts::Refuse => flags | ResolveFlags::NO_XDEV,
            Mounts::Cross => flags,
        }
    }
}

/// An open directory and the name of an entry in it.
pub struct Parent<'p> {
    /// The directory, opened with `O_PATH`.
    pub directory: OwnedFd,
    /// The entry's name.
    pub name: &'p str,
    /// Directories that gained an entry on the way here.
    made: Vec<OwnedFd>,
}

impl Parent<'_> {
    /// What the name refers to now, without following it; `None` if nothing.
    pub fn stat(&self) -> Result<Option<Stat>, Errno> {
        match statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes a new, changed or removed name survive a power cut, with every directory made for it.
    pub fn sync(&self) -> Result<(), Errno> {
        sync_directory(self.directory.as_fd())?;
        self.made
            .iter()
            .try_for_each(|directory| sync_directory(directory.as_fd()))
    }
}

/// Syncs a directory held with `O_PATH`, a kind of descriptor that cannot be synced itself.
pub fn sync_directory(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let readable = rustix::fs::openat(
        directory,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    match rustix::fs::fsync(&readable) {
        // Some file systems cannot sync a directory and do not need to.
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// A path's directory and last component. The root has neither; it can only be inspected.
fn split(path: &WorkPath) -> Result<(WorkPath, &str), OpsError> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(OpsError::new(
            ErrorKind::NotRegularFile,
            "it is the workspace root, which cannot be replaced",
        )
        .on(path)),
    }
}
