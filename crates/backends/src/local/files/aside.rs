//! Removes and renames exactly the file that was checked. Between a check and a removal somebody
//! else may save another file under the name. So the file is first moved aside to a name nobody can
//! guess and checked there, where nobody can replace it. If it is not the right one, it is put
//! back.

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileVersion, OpsError},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Parent},
    temporary_name::temporary_name,
};
use rustix::{
    fs::{AtFlags, FileType, RenameFlags, Stat, renameat, renameat_with, statat, unlinkat},
    io::Errno,
};

use super::stat::version;

/// Removes a file of this version.
pub(super) fn remove(jail: &Jail, path: &WorkPath, expected: &FileVersion) -> Result<(), OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let parent = jail.parent(path)?;
    let aside = SetAsideFile::take(&parent, path, expected)?;
    unlinkat(&parent.directory, aside.name.as_str(), AtFlags::empty()).map_err(fail)?;
    parent.sync().map_err(fail)
}

/// Renames a file of this version to a name that is free.
pub(super) fn rename(
    jail: &Jail,
    from: &WorkPath,
    to: &WorkPath,
    expected: &FileVersion,
) -> Result<(), OpsError> {
    let source = jail.parent(from)?;
    look(&source, from, expected)?;
    let destination = jail.parent_or_make(to)?;
    let aside = SetAsideFile::take(&source, from, expected)?;
    let moved = renameat_with(
        &source.directory,
        aside.name.as_str(),
        &destination.directory,
        destination.name,
        RenameFlags::NOREPLACE,
    );
    if let Err(errno) = moved {
        aside.put_back(from)?;
        return Err(errno::on_path(errno, to));
    }
    let synced = destination.sync().and_then(|()| source.sync());
    synced.map_err(|errno| errno::on_path(errno, to))
}

/// A file under a temporary name, in its own directory.
struct SetAsideFile<'p> {
    parent: &'p Parent<'p>,
    name: String,
}

impl<'p> SetAsideFile<'p> {
    fn take(
        parent: &'p Parent<'p>,
        path: &WorkPath,
        expected: &FileVersion,
    ) -> Result<Self, OpsError> {
        let fail = |errno| errno::on_path(errno, path);
        let before = look(parent, path, expected)?;
        let directory = &parent.directory;
        let name = temporary_name().map_err(fail)?;
        match renameat_with(
            directory,
            parent.name,
            directory,
            name.as_str(),
            RenameFlags::NOREPLACE,
        ) {
            // A file system without that rename; the name is free, as nobody can guess it.
            Err(Errno::INVAL | Errno::NOSYS) => {
                renameat(directory, parent.name, directory, name.as_str()).map_err(fail)?;
            }
            other => other.map_err(fail)?,
        }
        let aside = Self { parent, name };
        let after = statat(directory, aside.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        if after.is_ok_and(|after| is_same(&before, &after)) {
            return Ok(aside);
        }
        aside.put_back(path)?;
        Err(conflict(
            "somebody else changed it just now; their version is in place",
            path,
        ))
    }

    /// Gives the file its name back. If somebody has taken that meanwhile, both are kept.
    fn put_back(&self, path: &WorkPath) -> Result<(), OpsError> {
        let directory = &self.parent.directory;
        let (from, to) = (self.name.as_str(), self.parent.name);
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(errno) => {
                let message = format!(
                    "somebody else changed it just now; the earlier file is kept next to it as \
                     `{from}` ({errno})"
                );
                Err(conflict(&message, path))
            }
        }
    }
}

/// What is at the name now, which must be a regular file of this version.
fn look(parent: &Parent<'_>, path: &WorkPath, expected: &FileVersion) -> Result<Stat, OpsError> {
    let found = parent.stat().map_err(|errno| errno::on_path(errno, path))?;
    let Some(found) = found else {
        return Err(errno::on_path(Errno::NOENT, path));
    };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(errno::on_path(Errno::LOOP, path)),
        _ => return Err(conflict("it is no longer a regular file", path)),
    }
    if version(&found) == *expected {
        Ok(found)
    } else {
        Err(conflict(
            "it changed since it was read; read it again",
            path,
        ))
    }
}

/// Whether two stats show the same file with the same content. A rename updates the change time.
fn is_same(before: &Stat, after: &Stat) -> bool {
    let content = |stat: &Stat| {
        (
            stat.st_dev,
            stat.st_ino,
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
        )
    };
    content(before) == content(after)
}

fn conflict(message: &str, path: &WorkPath) -> OpsError {
    OpsError::new(ErrorKind::Conflict, message).on(path)
}
