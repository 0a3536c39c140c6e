//! Where a protected name that appeared while a command ran is put: without effect, and kept.
//!
//! It is moved into Haft's own directory if that is on the same file system; otherwise it stays
//! where it was under a name that nothing obeys. Moving is one step, so half of it never takes
//! effect. Nothing is copied, and nothing but a flood is deleted.

use std::{
    ffi::OsStr,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, chmodat, fstat, openat, renameat_with,
        unlinkat,
    },
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

use super::names;
use crate::{jail::Jail, linked_trees::WORKTREES, private_directory};

/// Most things kept in Haft's own directory; more stay where they were under another name.
const MAX_KEPT: usize = 64;

/// The prefix of the new name.
const PREFIX: &str = "haft-quarantined-";

/// The most characters of the old name in the new one. A command chooses the names of linked trees,
/// and one that could not be made longer could not be moved away.
const MAX_SHOWN_CHARS: usize = 40;

/// Where an entry of `.git/worktrees` is put if it has to stay in the workspace.
const ABOVE_WORKTREES: &str = ".git";

/// Haft's directory for what was moved away.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    directory: Option<OwnedFd>,
}

/// Where a moved thing is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuarantineLocation {
    /// In Haft's directory, under this name.
    Apart(String),
    /// Where it was, under this name; with a slash in it, at this path of the workspace.
    Renamed(String),
}

impl Quarantine {
    /// Uses this directory, making it if necessary. Without one, things are renamed.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        // A directory that somebody else could open or swap is no place to keep evidence.
        Ok(Self {
            directory: Some(private_directory::open(CWD, path)?),
        })
    }

    /// Moves a path of the workspace away. `None` if it no longer exists.
    pub(super) fn take(
        &self,
        jail: &Jail,
        path: &Path,
    ) -> Result<Option<QuarantineLocation>, Errno> {
        let (directory, name) = split(path)?;
        let Some(parent) = open_parent(jail, directory)? else {
            return Ok(None);
        };
        make_changeable(&parent);
        let is_linked_tree = directory == Path::new(WORKTREES);
        // Moving a directory into another one changes it too.
        if is_linked_tree && let Ok(tree) = names::open(jail, path) {
            make_changeable(&tree);
        }
        let new = new_name(name)?;
        let rename = |to: &OwnedFd| renameat_with(&parent, name, to, &new, RenameFlags::NOREPLACE);
        if let Some(apart) = self.directory.as_ref().filter(|held| has_room(held)) {
            match rename(apart) {
                Ok(()) => return Ok(Some(QuarantineLocation::Apart(new))),
                Err(Errno::NOENT) => return Ok(None),
                // Another file system, or it cannot be moved there for some other reason.
                Err(_) => {}
            }
        }
        // Under any name, whatever is in `.git/worktrees` is a linked tree to git.
        let above = if is_linked_tree {
            open_parent(jail, Path::new(ABOVE_WORKTREES))?
        } else {
            None
        };
        let (to, place) = match &above {
            Some(above) => (above, format!("{ABOVE_WORKTREES}/{new}")),
            None => (&parent, new.clone()),
        };
        make_changeable(to);
        match rename(to) {
            Ok(()) => Ok(Some(QuarantineLocation::Renamed(place))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Deletes a path of the workspace, once so much was moved away that keeping more would fill
    /// the disk. A directory that is not empty is moved instead.
    pub(super) fn discard(
        &self,
        jail: &Jail,
        path: &Path,
    ) -> Result<Option<QuarantineLocation>, Errno> {
        let (directory, name) = split(path)?;
        let Some(held) = open_parent(jail, directory)? else {
            return Ok(None);
        };
        make_changeable(&held);
        match unlinkat(&held, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
        match unlinkat(&held, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(None),
            Err(_) => self.take(jail, path),
        }
    }
}

/// The directory something is in, below the root, and its name there.
fn split(path: &Path) -> Result<(&Path, &OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    match path.parent() {
        Some(directory) if directory != Path::new("") => Ok((directory, name)),
        Some(_) | None => Ok((Path::new("."), name)),
    }
}

/// A command can make its own directory read-only after it put something there. It belongs to the
/// same user, so it can be made writable again.
fn make_changeable(directory: &OwnedFd) {
    let Ok(stat) = fstat(directory) else {
        return;
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !mode.contains(Mode::RWXU) {
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        // If it still cannot be changed, the next operation on it reports that.
        let _ = chmodat(CWD, path, mode | Mode::RWXU, AtFlags::empty());
    }
}

/// The directory something is in; `None` if that is gone, and the thing with it.
fn open_parent(jail: &Jail, path: &Path) -> Result<Option<OwnedFd>, Errno> {
    match names::open(jail, path) {
        Ok(held) => Ok(Some(held)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn has_room(directory: &OwnedFd) -> bool {
    let Ok(listing) = openat(
        directory,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return false;
    };
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(listing, buffer.spare_capacity_mut());
    let mut count = 0;
    while let Some(Ok(_)) = entries.next() {
        count += 1;
        // Includes `.` and `..`.
        if count >= MAX_KEPT + 2 {
            return false;
        }
    }
    true
}

/// A free name that nothing obeys and that shows what it was.
fn new_name(name: &OsStr) -> Result<String, Errno> {
    let mut bytes = [0_u8; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let random = u64::from_ne_bytes(bytes);
    let name = name.to_string_lossy();
    let shown = name.trim_start_matches('.').chars();
    // A person reads it on a terminal.
    let shown = shown.map(|letter| if letter.is_control() { '_' } else { letter });
    let shown: String = shown.take(MAX_SHOWN_CHARS).collect();
    Ok(format!("{PREFIX}{shown}-{random:016x}"))
}
