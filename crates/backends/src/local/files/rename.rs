//! Renames within the workspace. Both ends are held directories, so neither can be swapped for a
//! link that leads elsewhere. A symlink at either end is refused; one that appears at the last
//! moment is moved or replaced as such, never followed.

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{OpsError, Overwrite},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Parent},
};
use rustix::{
    fs::{FileType, RenameFlags, Stat, renameat_with},
    io::Errno,
};

/// Renames, creating the destination's missing parents.
pub(super) fn rename(
    jail: &Jail,
    from: &WorkPath,
    to: &WorkPath,
    overwrite: Overwrite,
) -> Result<(), OpsError> {
    let source = jail.parent(from)?;
    // Checked first so that a missing source creates no directories.
    if no_link(&source, from)?.is_none() {
        return Err(errno::on_path(Errno::NOENT, from));
    }
    let destination = jail.parent_or_make(to)?;
    no_link(&destination, to)?;
    let flags = match overwrite {
        Overwrite::Never => RenameFlags::NOREPLACE,
        Overwrite::Replace => RenameFlags::empty(),
    };
    renameat_with(
        &source.directory,
        source.name,
        &destination.directory,
        destination.name,
        flags,
    )
    .map_err(|errno| match errno {
        Errno::NOENT => errno::on_path(errno, from),
        Errno::INVAL => OpsError::new(
            ErrorKind::InvalidInput,
            "a directory cannot be moved into itself",
        )
        .on(to),
        other => errno::on_path(other, to),
    })?;
    destination
        .sync()
        .and_then(|()| source.sync())
        .map_err(|errno| errno::on_path(errno, to))
}

/// What is at a name, which must not be a symlink.
fn no_link(parent: &Parent<'_>, path: &WorkPath) -> Result<Option<Stat>, OpsError> {
    let fail = |errno| errno::on_path(errno, path);
    let stat = parent.stat().map_err(fail)?;
    match stat {
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
            Err(fail(Errno::LOOP))
        }
        other => Ok(other),
    }
}
