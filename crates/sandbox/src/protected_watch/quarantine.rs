//! Where a protected name goes that appeared while a command ran: out of effect, and kept.
//!
//! A directory of Haft's own takes it where that lies on the same file system; else it stays where
//! it was under a name that nothing obeys. Moving is one step, so there is no moment in which a
//! half of it takes effect. Nothing is copied, and nothing but a flood is deleted.

use std::{
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
use crate::{jail::Jail, private_directory};

/// Things kept in Haft's own directory, at most; more stay where they were under another name.
const MAX_KEPT: usize = 64;

/// What the new name of something begins with.
const PREFIX: &str = "haft-quarantined-";

/// Haft's directory for what was moved away.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    directory: Option<OwnedFd>,
}

/// Where something is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuarantineLocation {
    /// In Haft's directory, under this name.
    Apart(String),
    /// Where it was, under this name.
    Renamed(String),
}

impl Quarantine {
    /// Uses this directory, made if it is not there. Without one, things are renamed.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        // What somebody else could open or swap is not ours to keep evidence in.
        Ok(Self {
            directory: Some(private_directory::open(CWD, path)?),
        })
    }

    /// Moves a path of the workspace away. `None` when there is nothing any more.
    pub(super) fn take(
        &self,
        jail: &Jail,
        path: &str,
    ) -> Result<Option<QuarantineLocation>, Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let Some(parent) = open_parent(jail, parent)? else {
            return Ok(None);
        };
        make_changeable(&parent);
        let new = new_name(name)?;
        let rename = |to: &OwnedFd| renameat_with(&parent, name, to, &new, RenameFlags::NOREPLACE);
        if let Some(apart) = self.directory.as_ref().filter(|held| has_room(held)) {
            match rename(apart) {
                Ok(()) => return Ok(Some(QuarantineLocation::Apart(new))),
                Err(Errno::NOENT) => return Ok(None),
                // Another file system, or one that cannot move it there for some other reason.
                Err(_) => {}
            }
        }
        match rename(&parent) {
            Ok(()) => Ok(Some(QuarantineLocation::Renamed(new))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a path of the workspace for good, where so much was moved away already that
    /// keeping more would fill the disk. A directory that is not empty is moved instead.
    pub(super) fn discard(
        &self,
        jail: &Jail,
        path: &str,
    ) -> Result<Option<QuarantineLocation>, Errno> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let Some(held) = open_parent(jail, parent)? else {
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

/// A command can make its own directory unchangeable after it put something there. It belongs to
/// the same user, so it can be made changeable again.
fn make_changeable(directory: &OwnedFd) {
    let Ok(stat) = fstat(directory) else {
        return;
    };
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !mode.contains(Mode::RWXU) {
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        // What still cannot be changed is reported by whoever tries next.
        let _ = chmodat(CWD, path, mode | Mode::RWXU, AtFlags::empty());
    }
}

/// The directory something is in; `None` when that has gone meanwhile, and the thing with it.
fn open_parent(jail: &Jail, path: &str) -> Result<Option<OwnedFd>, Errno> {
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
        // `.` and `..` are among them.
        if count >= MAX_KEPT + 2 {
            return false;
        }
    }
    true
}

/// A name that nothing obeys, that shows what it was, and that is free.
fn new_name(name: &str) -> Result<String, Errno> {
    let mut bytes = [0_u8; 8];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let random = u64::from_ne_bytes(bytes);
    let shown = name.trim_start_matches('.');
    Ok(format!("{PREFIX}{shown}-{random:016x}"))
}
