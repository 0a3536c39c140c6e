//! Appends to a file, in place. Existing bytes stay where they are; an append that fails half way
//! is undone as far as possible.

use std::os::fd::OwnedFd;

use haft_contract::{
    WorkPath,
    ops::{OpsError, WrittenFile},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::{
    fs::{FileType, Mode, OFlags, fchmod, fstat, fsync, ftruncate, openat},
    io::Errno,
};

use super::stat::version;

/// Appends to a regular file, creating it and its directories if absent.
pub(super) fn append(jail: &Jail, path: &WorkPath, bytes: &[u8]) -> Result<WrittenFile, OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY;
    let (file, created) = match jail.open_at(path, flags, Lookup::Full) {
        Ok(file) => (file, false),
        Err(Errno::NOENT) => {
            let parent = jail.parent_or_make(path)?;
            let file = openat(
                &parent.directory,
                parent.name,
                flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o666),
            )
            .map_err(fail)?;
            parent.sync().map_err(fail)?;
            (file, true)
        }
        Err(errno) => return Err(fail(errno)),
    };
    let before = fstat(&file).map_err(fail)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Err(fail(Errno::NXIO));
    }
    jail.check_links(&before, path)?;
    if let Err(errno) = write_all(&file, bytes) {
        let _ = ftruncate(&file, u64::try_from(before.st_size).unwrap_or(0));
        return Err(fail(errno));
    }
    if before.st_mode & 0o6000 != 0 {
        fchmod(&file, Mode::from_raw_mode(before.st_mode & 0o1777)).map_err(fail)?;
    }
    fsync(&file).map_err(fail)?;
    let after = fstat(&file).map_err(fail)?;
    Ok(WrittenFile {
        version: version(&after),
        bytes: bytes.len() as u64,
        created,
    })
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
