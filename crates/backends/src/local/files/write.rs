//! Atomic writes: a temporary file in the same directory, synced, then renamed over the old one. A
//! reader sees the old content or the new, never a part, and after a power cut one of them is
//! there.

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{OpsError, WriteMode, WrittenFile},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Parent},
};
use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, fsync, openat},
    io::Errno,
};

use super::{
    OwnedExpected,
    rights::AccessList,
    stat::version,
    temporary::{ExistingTarget, Temporary},
};

/// Replaces or creates a file.
pub(super) fn write(
    jail: &Jail,
    path: &WorkPath,
    bytes: &[u8],
    expected: &OwnedExpected,
    mode: WriteMode,
) -> Result<WrittenFile, OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let parent = match expected {
        // A file that must exist already has its directory.
        OwnedExpected::Version(_) => jail.parent(path)?,
        OwnedExpected::Anything | OwnedExpected::Absent => jail.parent_or_make(path)?,
    };
    let old = replaceable(jail, &parent, path)?;
    check_expected(old.as_ref(), expected, path)?;

    // Nobody else may open it before it has its final permissions.
    let private = old.is_some() || mode != WriteMode::AsItIs;
    let temporary =
        Temporary::create(&parent, if private { 0o600 } else { 0o666 }).map_err(fail)?;
    temporary.write_all(bytes).map_err(fail)?;
    match (&old, mode) {
        (None, WriteMode::AsItIs) => {}
        (None, WriteMode::Exactly(mode)) => temporary.grant_only(mode).map_err(fail)?,
        (Some(old), WriteMode::AsItIs) => {
            let list = list_of(&parent, old);
            temporary.look_like(old, &list, old.st_mode).map_err(fail)?;
        }
        (Some(old), WriteMode::Exactly(mode)) => {
            let list = list_of(&parent, old);
            temporary.look_like(old, &list, mode).map_err(fail)?;
        }
    }
    fsync(temporary.file()).map_err(fail)?;

    // Checked again right before the rename; the remaining window is one system call.
    let now = replaceable(jail, &parent, path)?;
    check_expected(now.as_ref(), expected, path)?;
    let place = match expected {
        OwnedExpected::Absent => ExistingTarget::Free,
        OwnedExpected::Anything | OwnedExpected::Version(_) => ExistingTarget::Replace,
    };
    let file = temporary.place(place).map_err(|errno| match errno {
        Errno::EXIST => already_there(path),
        other => fail(other),
    })?;
    parent.sync().map_err(fail)?;
    let stat = fstat(&file).map_err(fail)?;
    Ok(WrittenFile {
        version: version(&stat),
        bytes: bytes.len() as u64,
        created: now.is_none(),
    })
}

/// The access control list of the file that is about to be replaced. If it cannot be opened, or has
/// been replaced meanwhile, nothing is known about it.
fn list_of(parent: &Parent<'_>, old: &Stat) -> AccessList {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = openat(&parent.directory, parent.name, flags, Mode::empty()) else {
        return AccessList::Unknown;
    };
    match fstat(&file) {
        Ok(found) if (found.st_dev, found.st_ino) == (old.st_dev, old.st_ino) => {
            AccessList::of(&file)
        }
        Ok(_) | Err(_) => AccessList::Unknown,
    }
}

/// What a write would replace: nothing or a regular file. Everything else is refused.
pub(super) fn replaceable(
    jail: &Jail,
    parent: &Parent<'_>,
    path: &WorkPath,
) -> Result<Option<Stat>, OpsError> {
    let stat = parent.stat().map_err(|errno| errno::on_path(errno, path))?;
    if let Some(stat) = &stat {
        let errno = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return jail.check_links(stat, path).map(|()| Some(*stat)),
            FileType::Directory => Errno::ISDIR,
            FileType::Symlink => Errno::LOOP,
            _ => Errno::NXIO,
        };
        return Err(errno::on_path(errno, path));
    }
    Ok(None)
}

/// The refusal of a name that must be free.
pub(super) fn already_there(path: &WorkPath) -> OpsError {
    errno::on_path(Errno::EXIST, path)
}

fn check_expected(
    found: Option<&Stat>,
    expected: &OwnedExpected,
    path: &WorkPath,
) -> Result<(), OpsError> {
    let conflict = |message: &str| OpsError::new(ErrorKind::Conflict, message).on(path);
    match (expected, found) {
        (OwnedExpected::Anything, _) | (OwnedExpected::Absent, None) => Ok(()),
        (OwnedExpected::Absent, Some(_)) => Err(already_there(path)),
        (OwnedExpected::Version(_), None) => Err(conflict("it was removed since it was read")),
        (OwnedExpected::Version(expected), Some(found)) => {
            if version(found) == *expected {
                Ok(())
            } else {
                Err(conflict("it changed since it was read; read it again"))
            }
        }
    }
}
