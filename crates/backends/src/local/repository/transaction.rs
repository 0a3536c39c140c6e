//! Puts parts of the repository's state back, all or none, the way git does it: a file with the
//! ending `.lock` beside each part, which nobody else can make meanwhile, and a rename at the end.
//!
//! Each part is read again under its lock. A process that dies between two renames leaves some parts
//! put back and locks behind, which git names.

use std::os::fd::{AsFd as _, OwnedFd};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileVersion, GitPart, OpsError, PartChange, part_version},
};
use haft_sandbox::{
    errno,
    jail::{Jail, sync_directory},
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat},
    io::{Errno, retry_on_intr, write},
};

use super::{
    part,
    refs::{PACKED, PackedRefs},
};

/// The permission bits of a part that has none on record.
const DEFAULT_MODE: u32 = 0o644;

/// Changes all parts or none.
pub(super) fn replace(
    jail: &Jail,
    changes: &[PartChange],
) -> Result<Vec<Option<FileVersion>>, OpsError> {
    let mut after = Vec::with_capacity(changes.len());
    for change in changes {
        after.push(new_version(change)?);
    }
    let packed_path = packed_path()?;
    let mut locks = Vec::with_capacity(changes.len());
    for change in changes {
        let lock = Lock::take(jail, &change.path, change.mode.unwrap_or(DEFAULT_MODE))?;
        let now = part::read(jail, &change.path)?.map(|part| part.version);
        if now != change.expected {
            let message = "it changed while it was put back";
            return Err(OpsError::new(ErrorKind::Conflict, message).on(&change.path));
        }
        if let Some(bytes) = &change.bytes {
            lock.write(bytes)?;
        }
        locks.push(lock);
    }
    let removed: Vec<&str> = changes
        .iter()
        .filter(|change| change.bytes.is_none() && GitPart::of(&change.path) == Some(GitPart::Ref))
        .map(|change| change.path.as_str())
        .collect();
    let unpacked = Unpacked::prepare(jail, &packed_path, &removed)?;
    // Everything is checked and written: from here on only names change.
    if let Some(unpacked) = unpacked {
        unpacked.commit()?;
    }
    let (removals, writes): (Vec<_>, Vec<_>) = changes
        .iter()
        .zip(locks)
        .partition(|(change, _)| change.bytes.is_none());
    for (change, lock) in removals {
        lock.remove_part()?;
        drop(lock);
        remove_empty_parents(jail, &change.path);
    }
    for (_, lock) in writes {
        lock.commit()?;
    }
    Ok(after)
}

/// The version a part will have; refuses bytes that are not such a part.
fn new_version(change: &PartChange) -> Result<Option<FileVersion>, OpsError> {
    let Some(bytes) = &change.bytes else {
        return Ok(None);
    };
    let holds = GitPart::of(&change.path).and_then(|part| part::holds(part, bytes));
    let holds = holds.ok_or_else(|| {
        OpsError::new(ErrorKind::Protected, "git would not accept this here").on(&change.path)
    })?;
    Ok(Some(part_version(&holds)))
}

/// `packed-refs` without refs that are removed.
struct Unpacked<'p>(Lock<'p>);

impl<'p> Unpacked<'p> {
    fn prepare(
        jail: &Jail,
        path: &'p WorkPath,
        removed: &[&str],
    ) -> Result<Option<Self>, OpsError> {
        let fail = |errno| errno::on_path(errno, path);
        let read = || {
            let packed = PackedRefs::read(jail).map_err(fail)?;
            packed
                .ok_or_else(|| OpsError::new(ErrorKind::LimitExceeded, "it is too large").on(path))
        };
        if removed.is_empty() || !removed.iter().any(|path| is_packed(&read, path)) {
            return Ok(None);
        }
        let lock = Lock::take(jail, path, DEFAULT_MODE)?;
        let packed = read()?;
        lock.write(&packed.without(removed))?;
        Ok(Some(Self(lock)))
    }

    fn commit(self) -> Result<(), OpsError> {
        self.0.commit()
    }
}

fn is_packed(read: &impl Fn() -> Result<PackedRefs, OpsError>, path: &str) -> bool {
    // If it cannot be read, that is reported once it is locked.
    read().map_or(true, |packed| packed.get(path).is_some())
}

fn packed_path() -> Result<WorkPath, OpsError> {
    WorkPath::relative(PACKED)
        .map_err(|error| OpsError::new(ErrorKind::InvalidPath, error.to_string()))
}

/// A lock on one of git's files, released when dropped.
struct Lock<'p> {
    path: &'p WorkPath,
    directory: OwnedFd,
    name: &'p str,
    beside: String,
    file: OwnedFd,
    is_held: bool,
}

impl<'p> Lock<'p> {
    fn take(jail: &Jail, path: &'p WorkPath, mode: u32) -> Result<Self, OpsError> {
        let parent = jail.parent_or_make(path)?;
        let beside = format!("{}.lock", parent.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode & 0o666);
        let file = retry_on_intr(|| {
            openat(
                &parent.directory,
                beside.as_str(),
                flags | OFlags::CLOEXEC,
                mode,
            )
        });
        let file = file.map_err(|errno| match errno {
            Errno::EXIST => {
                let message = format!("git is at work here: `{path}.lock` exists");
                OpsError::new(ErrorKind::Conflict, message).on(path)
            }
            errno => errno::on_path(errno, path),
        })?;
        Ok(Self {
            path,
            name: parent.name,
            directory: parent.directory,
            beside,
            file,
            is_held: true,
        })
    }

    fn fail(&self, errno: Errno) -> OpsError {
        errno::on_path(errno, self.path)
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), OpsError> {
        while !bytes.is_empty() {
            let written = retry_on_intr(|| write(&self.file, bytes));
            let written = written.map_err(|errno| self.fail(errno))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        fsync(&self.file).map_err(|errno| self.fail(errno))
    }

    /// Gives the part what was written.
    fn commit(mut self) -> Result<(), OpsError> {
        let renamed = renameat(
            &self.directory,
            self.beside.as_str(),
            &self.directory,
            self.name,
        );
        // An empty directory is what remains of refs that are gone.
        let renamed = match renamed {
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => {
                unlinkat(&self.directory, self.name, AtFlags::REMOVEDIR).and_then(|()| {
                    renameat(
                        &self.directory,
                        self.beside.as_str(),
                        &self.directory,
                        self.name,
                    )
                })
            }
            other => other,
        };
        renamed.map_err(|errno| self.fail(errno))?;
        self.is_held = false;
        // The new name counts; that it survives a power cut is not worth a failure.
        let _ = sync_directory(self.directory.as_fd());
        Ok(())
    }

    /// Removes the part itself.
    fn remove_part(&self) -> Result<(), OpsError> {
        match unlinkat(&self.directory, self.name, AtFlags::empty()) {
            // EISDIR: an empty directory of that name beside a packed ref.
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
            Err(errno) => Err(self.fail(errno)),
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        if self.is_held {
            let _ = unlinkat(&self.directory, self.beside.as_str(), AtFlags::empty());
        }
    }
}

/// Removes directories that a removed ref or reflog leaves empty, up to `refs/heads` and the like.
fn remove_empty_parents(jail: &Jail, path: &WorkPath) {
    let mut parent = path.parent();
    while let Some(directory) = parent {
        let depth = directory.components().count();
        let is_log = directory.components().nth(1) == Some("logs");
        // `.git/refs/heads` and `.git/logs/refs/heads` stay.
        if depth <= if is_log { 4 } else { 3 } {
            return;
        }
        let Ok(above) = jail.parent(&directory) else {
            return;
        };
        if unlinkat(&above.directory, above.name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
        parent = directory.parent();
    }
}
