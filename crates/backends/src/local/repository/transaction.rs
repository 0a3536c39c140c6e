//! Puts parts of the repository's state back, all or none, the way git does it: a file with the
//! ending `.lock` beside each part, which nobody else can make meanwhile, and a rename at the end.
//!
//! Each part is read again under its lock. To get from the branch `topic` back to `topic/x`, the file
//! `topic` has to make way for a directory before `topic/x` can be locked: it waits in its own lock, and
//! returns unless everything goes through. A process that dies between two renames leaves some parts put
//! back and locks behind, which git names.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileVersion, GitPart, OpsError, PartChange, part_version},
};
use haft_sandbox::{
    errno,
    jail::{Jail, sync_directory},
};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fsync, openat, renameat, unlinkat},
    io::{Errno, retry_on_intr, write},
};

use super::{
    name_conflicts::{ChangedNames, file_above, name_conflict},
    part,
    refs::{MAX_DEPTH, PACKED, PackedRefs},
};

/// The permission bits of a part that has none on record.
const DEFAULT_MODE: u32 = 0o644;

/// The permission bits that a part may have: none of them is a program.
const MODE_BITS: u32 = 0o666;

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
    let names = ChangedNames::of(changes);
    let (removals, writes): (Vec<&PartChange>, Vec<&PartChange>) =
        changes.iter().partition(|change| change.bytes.is_none());
    let (above, removals): (Vec<&PartChange>, Vec<&PartChange>) = removals
        .into_iter()
        .partition(|change| names.is_directory_of_written(&change.path));
    let (below, writes): (Vec<&PartChange>, Vec<&PartChange>) = writes
        .into_iter()
        .partition(|change| names.is_below_removed(&change.path));

    // Locks are released from the last to the first. So the directory of a part that made way is empty
    // again before the part returns.
    let mut making_way = lock_all(jail, &above)?;
    let removed = lock_all(jail, &removals)?;
    let mut written = lock_all(jail, &writes)?;
    names.check(jail)?;
    let unpacked = Unpacked::prepare(jail, &packed_path, &removed_refs(changes))?;
    for lock in &mut making_way {
        lock.make_way()?;
    }
    written.extend(lock_all(jail, &below)?);

    // Everything is checked and written: from here on only names change.
    if let Some(unpacked) = unpacked {
        unpacked.commit()?;
    }
    for lock in removed {
        lock.remove_part()?;
        let path = lock.path;
        drop(lock);
        remove_empty_parents(jail, path);
    }
    for lock in written {
        lock.commit()?;
    }
    for lock in making_way {
        lock.discard_part();
    }
    Ok(after)
}

/// Locks parts, checks that each still has its expected version, and writes new bytes beside it.
fn lock_all<'p>(jail: &Jail, changes: &[&'p PartChange]) -> Result<Vec<Lock<'p>>, OpsError> {
    let mut locks = Vec::with_capacity(changes.len());
    for &change in changes {
        let mode = change.mode.unwrap_or(DEFAULT_MODE);
        let (lock, file) = Lock::take(jail, &change.path, mode)?;
        let now = part::read(jail, &change.path)?.map(|part| part.version);
        if now != change.expected {
            let message = "it changed while it was put back";
            return Err(OpsError::new(ErrorKind::Conflict, message).on(&change.path));
        }
        if let Some(bytes) = &change.bytes {
            lock.write(&file, bytes)?;
        }
        locks.push(lock);
    }
    Ok(locks)
}

/// The refs that are removed.
fn removed_refs(changes: &[PartChange]) -> Vec<&str> {
    changes
        .iter()
        .filter(|change| change.bytes.is_none() && GitPart::of(&change.path) == Some(GitPart::Ref))
        .map(|change| change.path.as_str())
        .collect()
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
        if removed.is_empty() {
            return Ok(None);
        }
        let packed = read()?;
        if !removed.iter().any(|path| packed.get(path).is_some()) {
            return Ok(None);
        }
        let (lock, file) = Lock::take(jail, path, packed.mode)?;
        // The umask is for new files, and this one only loses lines. A file system that keeps no modes
        // has none to lose.
        let _ = fchmod(&file, Mode::from_raw_mode(packed.mode & MODE_BITS));
        let packed = read()?;
        lock.write(&file, &packed.without(removed))?;
        Ok(Some(Self(lock)))
    }

    fn commit(self) -> Result<(), OpsError> {
        self.0.commit()
    }
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
    content: LockContent,
}

/// What the file of a lock is.
enum LockContent {
    /// What the part will be, or nothing.
    New,
    /// The part itself, which has made way.
    Part,
    /// No longer there: it has become the part.
    Renamed,
}

impl<'p> Lock<'p> {
    /// Takes the lock. Also returns its file, which is open for writing.
    fn take(jail: &Jail, path: &'p WorkPath, mode: u32) -> Result<(Self, OwnedFd), OpsError> {
        let parent = jail
            .parent_or_make(path)
            .map_err(|error| match file_above(jail, path) {
                Some(above) => name_conflict(path, &above),
                None => error,
            })?;
        let beside = format!("{}.lock", parent.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(mode & MODE_BITS);
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
        let lock = Self {
            path,
            name: parent.name,
            directory: parent.directory,
            beside,
            content: LockContent::New,
        };
        Ok((lock, file))
    }

    fn fail(&self, errno: Errno) -> OpsError {
        errno::on_path(errno, self.path)
    }

    fn write(&self, file: &OwnedFd, mut bytes: &[u8]) -> Result<(), OpsError> {
        while !bytes.is_empty() {
            let written = retry_on_intr(|| write(file, bytes));
            let written = written.map_err(|errno| self.fail(errno))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        fsync(file).map_err(|errno| self.fail(errno))
    }

    /// Moves the part into its lock, so that a directory can have its name. The part returns when the
    /// lock is dropped.
    fn make_way(&mut self) -> Result<(), OpsError> {
        match self.rename(self.name, &self.beside) {
            Ok(()) => {
                self.content = LockContent::Part;
                Ok(())
            }
            // A packed ref has no file, and there may be a directory of its name already.
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(self.fail(errno)),
        }
    }

    /// Removes a part that has made way.
    fn discard_part(mut self) {
        self.content = LockContent::New;
    }

    /// Gives the part what was written.
    fn commit(mut self) -> Result<(), OpsError> {
        let renamed = match self.rename(&self.beside, self.name) {
            // Empty directories are what remains of refs that are gone.
            Err(Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY) => self
                .remove_empty_directories()
                .and_then(|()| self.rename(&self.beside, self.name)),
            other => other,
        };
        renamed.map_err(|errno| self.fail(errno))?;
        self.content = LockContent::Renamed;
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

    fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        renameat(&self.directory, from, &self.directory, to)
    }

    /// Removes the directory that has the part's name, if there is nothing in it but directories.
    fn remove_empty_directories(&self) -> Result<(), Errno> {
        remove_empty_directories(self.directory.as_fd(), self.name.as_bytes(), MAX_DEPTH)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        match self.content {
            LockContent::New => {
                let _ = unlinkat(&self.directory, self.beside.as_str(), AtFlags::empty());
            }
            LockContent::Part => {
                let _ = self.remove_empty_directories();
                let _ = self.rename(&self.beside, self.name);
            }
            LockContent::Renamed => {}
        }
    }
}

/// Removes a directory in which there are only directories, themselves empty, and not too deep.
fn remove_empty_directories(
    above: BorrowedFd<'_>,
    name: &[u8],
    max_depth: usize,
) -> Result<(), Errno> {
    let Some(max_depth) = max_depth.checked_sub(1) else {
        return Err(Errno::NOTEMPTY);
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(above, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let inner = entry.file_name().to_bytes();
        let is_inner = inner != b"." && inner != b"..";
        if is_inner && entry.file_type() == FileType::Directory {
            remove_empty_directories(directory.as_fd(), inner, max_depth)?;
        }
    }
    unlinkat(above, name, AtFlags::REMOVEDIR)
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
