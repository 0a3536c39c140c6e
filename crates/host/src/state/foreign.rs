//! A configuration file that its owner asked Haft to change, their own or another program's: replaced
//! entirely or not at all, with its permissions kept and a backup next to it.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};

use super::private;
use crate::error::HostError;

/// The largest file that is changed. Agents keep their history in some.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The suffix of a backup.
const BACKUP: &str = ".haft-backup";

/// The most backups of one file.
const MAX_BACKUPS: usize = 100;

/// The permissions of a new file: readable by its owner only.
const NEW_MODE: u32 = 0o600;

/// A file as it was read.
#[derive(Debug)]
pub struct ForeignFile {
    path: PathBuf,
    found: Option<FileContents>,
}

#[derive(Debug, PartialEq, Eq)]
struct FileContents {
    text: String,
    mode: u32,
}

/// When a file is backed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupPolicy {
    /// Not at all.
    Never,
    /// Before the first change.
    Once,
    /// Before every change.
    Always,
}

impl ForeignFile {
    /// Reads a file, which need not exist.
    pub fn read(path: PathBuf) -> Result<Self, HostError> {
        let found = found(&path)?;
        Ok(Self { path, found })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its text; `None` if it does not exist.
    pub fn text(&self) -> Option<&str> {
        self.found.as_ref().map(|found| found.text.as_str())
    }

    /// Replaces it and returns the backup's path. Fails if the file has changed since it was read.
    pub fn replace(&self, text: &str, keep: BackupPolicy) -> Result<Option<PathBuf>, HostError> {
        let failed = |what: &str, error: io::Error| {
            HostError::config(
                format!("`{}` cannot be {what}: {error}", self.path.display()),
                "check that its directory is yours and has room",
            )
        };
        if let Some(directory) = self.path.parent() {
            let made = DirBuilder::new().recursive(true).create(directory);
            made.map_err(|error| failed("made", error))?;
        }
        let backup = match &self.found {
            Some(found) if keep != BackupPolicy::Never => self.keep(found, keep),
            Some(_) | None => Ok(None),
        };
        let backup = backup.map_err(|error| failed("copied", error))?;
        self.unchanged()?;
        let mode = self.found.as_ref().map_or(NEW_MODE, |found| found.mode);
        let replaced = private::replace_with_mode(&self.path, text.as_bytes(), mode);
        replaced.map_err(|error| failed("written", error))?;
        Ok(backup)
    }

    /// Removes it, if it exists and has not changed since it was read.
    pub fn remove(&self) -> Result<(), HostError> {
        if self.found.is_none() {
            return Ok(());
        }
        self.unchanged()?;
        fs::remove_file(&self.path).map_err(|error| {
            HostError::config(
                format!("`{}` cannot be removed: {error}", self.path.display()),
                "check that its directory is yours",
            )
        })
    }

    /// Fails if the file has changed since it was read.
    fn unchanged(&self) -> Result<(), HostError> {
        if found(&self.path)? == self.found {
            return Ok(());
        }
        Err(HostError::config(
            format!("another program has just changed `{}`", self.path.display()),
            "close the program it belongs to, then run the command again",
        ))
    }

    /// Copies the file to a backup next to it.
    fn keep(&self, found: &FileContents, keep: BackupPolicy) -> io::Result<Option<PathBuf>> {
        for number in 1..=MAX_BACKUPS {
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(BACKUP);
            if number > 1 {
                name.push(format!(".{number}"));
            }
            let path = self.path.with_file_name(name);
            let made = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(found.mode)
                .open(&path);
            match (made, keep) {
                (Ok(mut file), _) => {
                    file.write_all(found.text.as_bytes())?;
                    file.sync_all()?;
                    return Ok(Some(path));
                }
                (Err(error), _) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error);
                }
                (Err(_), BackupPolicy::Never | BackupPolicy::Once) => return Ok(None),
                (Err(_), BackupPolicy::Always) => {}
            }
        }
        Err(io::Error::other(format!(
            "it has {MAX_BACKUPS} backups already"
        )))
    }
}

fn found(path: &Path) -> Result<Option<FileContents>, HostError> {
    let refused =
        |why: &str, hint: &str| HostError::config(format!("`{}` {why}", path.display()), hint);
    let unreadable =
        |error: io::Error| refused(&format!("cannot be read: {error}"), "check who may read it");
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(refused(
                "is a symbolic link, and would be replaced by a file",
                "name the file it leads to with `--file`",
            ));
        }
        Err(error) => return Err(unreadable(error)),
    };
    // Checked on the open file, so that the file checked is the file read.
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(refused("is not a regular file", "move it away"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let why = format!("belongs to user {}, not to you", metadata.uid());
        return Err(refused(&why, "run the command as its owner"));
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(refused(
            "is too large",
            "change it by hand; `--dry-run` shows the entry",
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| refused("is not UTF-8", "save it as UTF-8, or change it by hand"))?;
    let mode = metadata.mode() & 0o7777;
    Ok(Some(FileContents { text, mode }))
}
