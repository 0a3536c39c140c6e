//! A new file under a name nobody can guess, that becomes a real one or vanishes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, RenameFlags, Stat, fchmod, fchown, linkat, openat, renameat,
        renameat_with, unlinkat,
    },
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

use crate::jail::Parent;

/// The permission bits a rewritten file keeps: never setuid or setgid.
const KEPT_MODE: u32 = 0o1777;

/// A file being written beside its destination. Removed on drop unless it was put in place.
pub(super) struct Temporary<'p> {
    parent: &'p Parent<'p>,
    name: String,
    file: OwnedFd,
    placed: bool,
}

/// Whether something may stand where the file is put.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The name must be free at the very moment of the rename.
    Free,
    /// Whatever is there is replaced.
    Replace,
}

impl<'p> Temporary<'p> {
    /// Makes the file. Its name is random and must be new, so a name prepared by somebody else,
    /// link or not, is never opened.
    pub(super) fn create(parent: &'p Parent<'p>, mode: u32) -> Result<Self, Errno> {
        let name = random_name()?;
        let file = openat(
            &parent.directory,
            name.as_str(),
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )?;
        Ok(Self {
            parent,
            name,
            file,
            placed: false,
        })
    }

    /// The open file.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes all the bytes.
    pub(super) fn write_all(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Gives the file the owner and the permissions of the one it will replace.
    pub(super) fn look_like(&self, old: &Stat) -> Result<(), Errno> {
        let user = rustix::process::geteuid();
        if old.st_uid != user.as_raw() || old.st_gid != rustix::process::getegid().as_raw() {
            // Only root may give files away; for everybody else the writer owns what it wrote.
            let _ = fchown(
                &self.file,
                Some(rustix::fs::Uid::from_raw(old.st_uid)),
                Some(rustix::fs::Gid::from_raw(old.st_gid)),
            );
        }
        self.set_mode(old.st_mode)
    }

    /// Sets permission bits, without setuid and setgid.
    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        fchmod(&self.file, Mode::from_raw_mode(mode & KEPT_MODE))
    }

    /// Gives the file its real name in one step.
    pub(super) fn place(mut self, place: Place) -> Result<OwnedFd, Errno> {
        let directory = &self.parent.directory;
        let (from, to) = (self.name.as_str(), self.parent.name);
        match place {
            Place::Replace => renameat(directory, from, directory, to)?,
            Place::Free => {
                match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
                    // A file system without that rename: a hard link fails just as surely when
                    // the name is taken. The temporary name is removed on drop.
                    Err(Errno::INVAL | Errno::NOSYS) => {
                        linkat(directory, from, directory, to, AtFlags::empty())?;
                        return self.file.try_clone().map_err(|_| Errno::MFILE);
                    }
                    other => other?,
                }
            }
        }
        self.placed = true;
        self.file.try_clone().map_err(|_| Errno::MFILE)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.placed {
            // Nothing more can be done about a leftover that cannot be removed.
            let _ = unlinkat(&self.parent.directory, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// A name with 128 random bits.
pub(super) fn random_name() -> Result<String, Errno> {
    use std::fmt::Write as _;
    let mut bytes = [0_u8; 16];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if got != bytes.len() {
        return Err(Errno::IO);
    }
    let mut name = String::with_capacity(43);
    name.push_str(".haft-");
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".tmp");
    Ok(name)
}
