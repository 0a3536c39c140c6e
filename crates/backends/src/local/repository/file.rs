//! Reads one of git's files through the jail: regular files only, no symlink, never more than a
//! limit.

use haft_sandbox::jail::{Jail, Lookup};
use rustix::{
    buffer::spare_capacity,
    fs::{Dir, FileType, OFlags, Stat, fstat},
    io::{Errno, pread},
};

use crate::local::files::version_of;

/// A file that was read.
pub(super) struct GitFile {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// What reading found.
pub(super) enum GitFileLookup {
    /// Nothing.
    Absent,
    /// A file within the limit.
    File(GitFile),
    /// Something that is not read: too large, or not a file of this user. The text changes when it
    /// does.
    Unread(String),
}

/// Reads a file.
pub(super) fn read(
    jail: &Jail,
    path: impl AsRef<[u8]>,
    max_bytes: u64,
) -> Result<GitFileLookup, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match jail.open_bytes(path.as_ref(), flags, Lookup::Full) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(GitFileLookup::Absent),
        Err(Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::NXIO) => {
            return Ok(GitFileLookup::Unread(String::new()));
        }
        Err(errno) => return Err(errno),
    };
    let stat = fstat(&file)?;
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Ok(GitFileLookup::Absent);
    }
    if !is_file || size > max_bytes || jail.links_elsewhere(&stat) {
        return Ok(GitFileLookup::Unread(identity(&stat)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    loop {
        let at = bytes.len() as u64;
        if pread(&file, spare_capacity(&mut bytes), at)? == 0 {
            break;
        }
        if bytes.len() as u64 > max_bytes {
            return Ok(GitFileLookup::Unread(identity(&stat)));
        }
        bytes.reserve(1);
    }
    Ok(GitFileLookup::File(GitFile {
        bytes,
        mode: stat.st_mode & 0o777,
    }))
}

/// How many names of one directory are read. Git packs references long before.
const MAX_NAMES: usize = 65_536;

/// The names in a directory with their kinds; none if it is not there, and an error if there are more
/// than [`MAX_NAMES`]. A name need not be text.
pub(super) fn names(
    jail: &Jail,
    path: impl AsRef<[u8]>,
) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let directory = match jail.open_bytes(path.as_ref(), flags, Lookup::Full) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            if found.len() == MAX_NAMES {
                return Err(Errno::OVERFLOW);
            }
            found.push((name.to_vec(), entry.file_type()));
        }
    }
    Ok(found)
}

/// Changes when the file does.
fn identity(stat: &Stat) -> String {
    version_of(
        stat.st_ino,
        stat.st_size,
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    )
    .as_str()
    .to_owned()
}
