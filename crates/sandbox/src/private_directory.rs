//! A directory of Haft's that nobody else can read or change: for things that a workspace must not
//! reach.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, chmodat, fstat, mkdirat, openat},
    io::Errno,
};

/// Opens such a directory, making it if necessary. Refuses a symlink, and a directory that belongs
/// to somebody else or is accessible to others.
pub fn open(parent: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    match mkdirat(&parent, path, Mode::RWXU) {
        // A umask may have removed bits that we need ourselves.
        Ok(()) => chmodat(&parent, path, Mode::RWXU, AtFlags::empty())?,
        Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&parent, path, flags, Mode::empty())?;
    let stat = fstat(&directory)?;
    let others = Mode::RWXG | Mode::RWXO;
    let open_to_others = Mode::from_raw_mode(stat.st_mode).intersects(others);
    if stat.st_uid != rustix::process::geteuid().as_raw() || open_to_others {
        return Err(Errno::PERM);
    }
    Ok(directory)
}
