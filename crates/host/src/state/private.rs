//! Haft's own small files: readable by their owner alone, and replaced as a whole or not at all.

use std::{
    fs::{self, DirBuilder, Metadata, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::Path,
};

/// The largest configuration file that is read.
pub const MAX_CONFIG_BYTES: u64 = 16 * 1024 * 1024;

/// The permission bits that let anybody but the owner write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Creates a directory and its missing parents, readable by their owner alone.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Reads a small regular file; `None` if it does not exist. A device or FIFO is refused, not
/// waited for.
pub fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    read_if(path, limit, |_| Ok(()))
}

/// Reads a small regular file that decides what tools may do, as [`read`] does. It is refused if
/// anybody but its owner could have written it or replaced it.
pub fn read_own(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if let Some(directory) = path.parent() {
        match fs::metadata(directory) {
            Ok(metadata) => written_by_nobody_else(&metadata).map_err(|why| {
                io::Error::other(format!("its directory `{}` {why}", directory.display()))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    read_if(path, limit, |metadata| {
        written_by_nobody_else(metadata).map_err(|why| io::Error::other(format!("it {why}")))
    })
}

fn written_by_nobody_else(metadata: &Metadata) -> Result<(), String> {
    const ROOT: u32 = 0;
    let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != me && owner != ROOT {
        return Err(format!("belongs to user {owner}, not to you"));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(format!("can be written by others (mode {mode:04o})"));
    }
    Ok(())
}

fn read_if(
    path: &Path,
    limit: u64,
    accept: impl FnOnce(&Metadata) -> io::Result<()>,
) -> io::Result<Option<Vec<u8>>> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Checks the open file, so that what is checked is what is read.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    accept(&metadata)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(Some(bytes))
}

/// Creates a new file; fails if the name exists.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file as a whole; only its owner can read the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with_mode(path, bytes, 0o600)
}

/// Replaces a file as a whole, with these permissions.
pub fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let aside = path.with_extension(format!("new.{}", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all());
    let replaced = written.and_then(|()| fs::rename(&aside, path));
    if replaced.is_err() {
        // The first error is the one that is reported.
        let _ = fs::remove_file(&aside);
    }
    replaced
}
