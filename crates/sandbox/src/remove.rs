//! Removes files and trees, through held directories. A symlink is removed, never followed, even if
//! a directory becomes one while its tree is being removed.

use std::{
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

use haft_contract::{ErrorKind, WorkPath, ops::OpsError};
use rustix::{
    fs::{AtFlags, FileType, OFlags, RawDir, RenameFlags, SeekFrom, renameat_with, seek, unlinkat},
    io::Errno,
};

use crate::{errno, jail::Jail, temporary_name::temporary_name};

/// Most directories held open at once. Deeper directories are moved up to the top as they are
/// found, so a depth of a hundred thousand needs no more descriptors than this.
const MAX_HELD: usize = 48;

/// Names read from a directory at a time.
const BATCH: usize = 1024;

/// The most entries one removal touches, so that somebody who keeps adding files cannot keep it
/// busy forever.
const MAX_ENTRIES: u64 = 20_000_000;

/// Removes one file or symlink.
pub fn file(jail: &Jail, path: &WorkPath) -> Result<(), OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let parent = jail.parent(path)?;
    unlinkat(&parent.directory, parent.name, AtFlags::empty()).map_err(fail)?;
    parent.sync().map_err(fail)
}

/// Removes a directory and everything beneath it, or a single file.
pub fn tree(jail: &Jail, path: &WorkPath) -> Result<(), OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let parent = jail.parent(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    match jail.open_beneath(parent.directory.as_fd(), parent.name, flags) {
        Ok(top) => empty(jail, top, path)?,
        // A file or a link: removed as such.
        Err(Errno::NOTDIR | Errno::LOOP) => return file(jail, path),
        Err(errno) => return Err(fail(errno)),
    }
    match unlinkat(&parent.directory, parent.name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTDIR) => return file(jail, path),
        other => other.map_err(fail)?,
    }
    parent.sync().map_err(fail)
}

/// A directory being emptied.
struct Frame {
    directory: OwnedFd,
    /// Its name in the frame below, for removing it once it is empty.
    name: CString,
    /// Names read and not yet removed.
    pending: Vec<PendingName>,
}

struct PendingName {
    name: CString,
    directory: bool,
}

/// Empties a directory without recursion.
fn empty(jail: &Jail, top: OwnedFd, path: &WorkPath) -> Result<(), OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let mut stack = vec![Frame {
        directory: top,
        name: CString::default(),
        pending: Vec::new(),
    }];
    let mut touched = 0_u64;
    loop {
        let held = stack.len();
        let Some(frame) = stack.last_mut() else {
            return Ok(());
        };
        let Some(entry) = frame.pending.pop() else {
            frame.pending = names(&frame.directory).map_err(fail)?;
            if frame.pending.is_empty()
                && let Some(done) = stack.pop()
                && let Some(below) = stack.last()
            {
                remove_directory(&below.directory, &done.name).map_err(fail)?;
            }
            continue;
        };
        touched += 1;
        if touched > MAX_ENTRIES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("it holds more than {MAX_ENTRIES} entries, or somebody keeps adding some"),
            )
            .on(path));
        }
        if !entry.directory {
            match unlinkat(&frame.directory, &*entry.name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                // It has become a directory since its name was read.
                Err(Errno::ISDIR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
        match unlinkat(&frame.directory, &*entry.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            // It has become a file or a link since its name was read.
            Err(Errno::NOTDIR) => {
                match unlinkat(&frame.directory, &*entry.name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(fail(errno)),
                }
            }
            Err(errno) => return Err(fail(errno)),
        }
        if held >= MAX_HELD {
            fold_up(&mut stack, &entry.name).map_err(fail)?;
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match jail.open_beneath(frame.directory.as_fd(), entry.name.as_c_str(), flags) {
            Ok(directory) => stack.push(Frame {
                directory,
                name: entry.name,
                pending: Vec::new(),
            }),
            // Gone, or a link now: the next read of the directory shows what it is.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(fail(errno)),
        }
    }
}

/// Moves a directory that is too deep to hold open to the top of the tree being removed, where it
/// is emptied later.
fn fold_up(stack: &mut [Frame], name: &CString) -> Result<(), Errno> {
    let new_name = CString::new(temporary_name()?).map_err(|_| Errno::INVAL)?;
    let [top, .., deepest] = stack else {
        return Err(Errno::INVAL);
    };
    match renameat_with(
        &deepest.directory,
        &**name,
        &top.directory,
        &*new_name,
        RenameFlags::NOREPLACE,
    ) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    top.pending.push(PendingName {
        name: new_name,
        directory: true,
    });
    Ok(())
}

fn remove_directory(below: &OwnedFd, name: &CString) -> Result<(), Errno> {
    match unlinkat(below, &**name, AtFlags::REMOVEDIR) {
        // Refilled, swapped or gone meanwhile: the next read of the directory below shows it.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The next batch of names in a directory.
fn names(directory: &OwnedFd) -> Result<Vec<PendingName>, Errno> {
    seek(directory, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names.push(PendingName {
            name: name.to_owned(),
            directory: entry.file_type() == FileType::Directory,
        });
        if names.len() >= BATCH {
            break;
        }
    }
    Ok(names)
}
