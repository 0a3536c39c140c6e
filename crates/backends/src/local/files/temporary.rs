//! A new file under a name nobody can guess, which is either put in place or removed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use haft_sandbox::{jail::Parent, temporary_name::temporary_name};
use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fstat, linkat, openat,
        renameat, renameat_with, unlinkat,
    },
    io::Errno,
};

use super::rights::{AccessList, KEPT_MODE, without_group};

/// A file being written next to its destination. Removed on drop unless it was put in place.
pub(super) struct Temporary<'p> {
    parent: &'p Parent<'p>,
    name: String,
    file: OwnedFd,
    placed: bool,
}

/// Whether something may already be where the file is put.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExistingTarget {
    /// The name must be free at the very moment of the rename.
    Free,
    /// Whatever is there is replaced.
    Replace,
}

impl<'p> Temporary<'p> {
    /// Makes the file. Its name is random and must be new, so a name prepared by somebody else,
    /// link or not, is never opened.
    pub(super) fn create(parent: &'p Parent<'p>, mode: u32) -> Result<Self, Errno> {
        let name = temporary_name()?;
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

    /// Gives the file the owner, the group and the access control list of the one it will replace,
    /// and these permissions. If the group or the list cannot be kept, the group bits would apply
    /// to somebody else, and are reduced to what everybody has.
    pub(super) fn look_like(&self, old: &Stat, list: &AccessList, mode: u32) -> Result<(), Errno> {
        let group_is_kept = self.belong_as(old)?;
        if group_is_kept && list.give_to(&self.file) {
            return self.set_mode(mode);
        }
        self.grant_only(without_group(mode))
    }

    /// Gives the file the owner and group of the old one, as far as that is allowed; returns
    /// whether it has the same group now.
    fn belong_as(&self, old: &Stat) -> Result<bool, Errno> {
        let (user, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        let new = fstat(&self.file)?;
        if new.st_uid == old.st_uid && new.st_gid == old.st_gid {
            return Ok(true);
        }
        // Only root may give files away; for everybody else the writer owns what it wrote, and can
        // still give it to one of their own groups.
        if fchown(&self.file, Some(user), Some(group)).is_err() {
            let _ = fchown(&self.file, None, Some(group));
        }
        Ok(fstat(&self.file)?.st_gid == old.st_gid)
    }

    /// Sets permission bits without a list: one inherited from the directory would grant more than
    /// they say.
    pub(super) fn grant_only(&self, mode: u32) -> Result<(), Errno> {
        if AccessList::Absent.give_to(&self.file) {
            self.set_mode(mode)
        } else {
            // Without group bits, a list cannot let anybody in.
            self.set_mode(mode & !0o070)
        }
    }

    /// Sets permission bits, without setuid and setgid.
    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        fchmod(&self.file, Mode::from_raw_mode(mode & KEPT_MODE))
    }

    /// Gives the file its final name in one step.
    pub(super) fn place(mut self, place: ExistingTarget) -> Result<OwnedFd, Errno> {
        let directory = &self.parent.directory;
        let (from, to) = (self.name.as_str(), self.parent.name);
        match place {
            ExistingTarget::Replace => renameat(directory, from, directory, to)?,
            ExistingTarget::Free => {
                match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
                    // A file system without that rename: a hard link fails just as reliably if the
                    // name is taken. The temporary name is removed on drop.
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
