//! Renaming within the workspace. Both ends are held directories, so neither can be swapped for a
//! link that leads elsewhere; a symlink is renamed as such.

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{OpsError, Overwrite},
};
use rustix::{
    fs::{RenameFlags, renameat_with},
    io::Errno,
};

use crate::{errno, jail::Jail};

/// Renames, creating the destination's missing parents.
pub(super) fn rename(
    jail: &Jail,
    from: &WorkPath,
    to: &WorkPath,
    overwrite: Overwrite,
) -> Result<(), OpsError> {
    let source = jail.parent(from)?;
    // Looked at first so that a missing source makes no directories.
    if source
        .stat()
        .map_err(|errno| errno::on_path(errno, from))?
        .is_none()
    {
        return Err(errno::on_path(Errno::NOENT, from));
    }
    let destination = jail.parent_or_make(to)?;
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
