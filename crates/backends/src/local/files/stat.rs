//! What is at a path, and the version that distinguishes two states of a file.

use haft_contract::{
    WorkPath,
    ops::{FileKind, FileStat, FileVersion, OpsError},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::{
    fs::{FileType, OFlags, Stat, fstat},
    io::Errno,
};

use crate::local::file_kind::kind_of;

/// The state of a path, if that takes no disk access; `None` if it might.
pub(super) fn cached(jail: &Jail, path: &WorkPath) -> Option<Result<FileStat, OpsError>> {
    match at(jail, path, Lookup::Cached) {
        Err(Errno::AGAIN) => None,
        other => Some(other.map_err(|errno| errno::on_path(errno, path))),
    }
}

/// The state of a path.
pub(super) fn full(jail: &Jail, path: &WorkPath) -> Result<FileStat, OpsError> {
    at(jail, path, Lookup::Full).map_err(|errno| errno::on_path(errno, path))
}

fn at(jail: &Jail, path: &WorkPath, lookup: Lookup) -> Result<FileStat, Errno> {
    let file = jail.open_at(path, OFlags::PATH | OFlags::NOFOLLOW, lookup)?;
    Ok(file_stat(&fstat(&file)?))
}

/// A stat in the types of the contract.
pub(crate) fn file_stat(stat: &Stat) -> FileStat {
    let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
    FileStat {
        kind,
        size: size(stat, kind),
        mode: stat.st_mode & 0o7777,
        version: version(stat),
        modified_ms: modified_ms(stat),
    }
}

/// The size of a regular file; zero for everything else.
fn size(stat: &Stat, kind: FileKind) -> u64 {
    match kind {
        FileKind::File => u64::try_from(stat.st_size).unwrap_or(0),
        FileKind::Directory | FileKind::Symlink | FileKind::Other => 0,
    }
}

/// The version of the file that was statted.
pub(crate) fn version(stat: &Stat) -> FileVersion {
    version_of(
        stat.st_ino,
        stat.st_size,
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    )
}

/// Inode, size and both change times. The inode changes with every atomic write; a process that
/// changes the content in place cannot reset the change time.
pub(crate) fn version_of(
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
) -> FileVersion {
    FileVersion::new(format!(
        "{inode:x}.{size:x}.{:x}.{:x}.{:x}.{:x}",
        modified.0, modified.1, changed.0, changed.1
    ))
}

/// When the content last changed, in milliseconds since 1970.
pub(crate) fn modified_ms(stat: &Stat) -> i64 {
    let below_a_second = i64::try_from(stat.st_mtime_nsec / 1_000_000).unwrap_or(0);
    stat.st_mtime
        .saturating_mul(1000)
        .saturating_add(below_a_second)
}
