//! The files of a record in memory: its marks and the locks of its writers. They are files without a
//! name, so that whatever reads, writes and locks a record's files does the same with these.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io,
    os::fd::AsRawFd as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::directory::{KEY_BYTES, fill_random};

/// The most files: one for each writer that was there at once, and a few more.
const MAX_FILES: usize = 1_024;

/// What opening a file does if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Refuse,
    Create,
    /// There must be none.
    CreateNew,
}

/// Files in memory, below a path. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryFiles {
    files: Arc<Mutex<FileTable>>,
    beneath: String,
}

#[derive(Debug, Default)]
struct FileTable {
    by_path: BTreeMap<String, File>,
    key: Option<[u8; KEY_BYTES]>,
}

impl MemoryFiles {
    /// The same files, below another directory.
    pub(crate) fn beneath(&self, name: &str) -> Self {
        Self {
            files: Arc::clone(&self.files),
            beneath: format!("{}{name}/", self.beneath),
        }
    }

    /// Opens a file for reading and writing. Each opening has locks of its own.
    pub(crate) fn open(&self, name: &str, missing: Missing) -> io::Result<File> {
        let path = format!("{}{name}", self.beneath);
        let mut files = self.lock();
        match (files.by_path.get(&path), missing) {
            (Some(_), Missing::CreateNew) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(file), Missing::Refuse | Missing::Create) => return reopened(file),
            (None, Missing::Refuse) => return Err(io::ErrorKind::NotFound.into()),
            (None, Missing::Create | Missing::CreateNew) => {}
        }
        if files.by_path.len() >= MAX_FILES {
            return Err(io::Error::other("a record in memory has too many files"));
        }
        let file = File::from(memfd_create("haft-record", MemfdFlags::CLOEXEC)?);
        let opened = reopened(&file)?;
        files.by_path.insert(path, file);
        Ok(opened)
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = format!("{}{name}", self.beneath);
        self.lock().by_path.remove(&path);
    }

    /// The names of the files directly in this directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.lock();
        let here = files.by_path.keys();
        let here = here.filter_map(|path| path.strip_prefix(&self.beneath));
        let here = here.filter(|name| !name.contains('/') && !name.starts_with('.'));
        here.map(str::to_owned).collect()
    }

    /// The key that signs checkpoints, made on first use.
    pub(crate) fn signing_key(&self) -> io::Result<[u8; KEY_BYTES]> {
        let mut files = self.lock();
        if let Some(key) = files.key {
            return Ok(key);
        }
        let mut key = [0; KEY_BYTES];
        fill_random(&mut key)?;
        files.key = Some(key);
        Ok(key)
    }

    fn lock(&self) -> MutexGuard<'_, FileTable> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same file opened once more, because a duplicate would share its locks.
fn reopened(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::{fs::TryLockError, os::unix::fs::FileExt as _};

    use super::*;

    #[test]
    fn files_are_shared_by_name_and_locked_by_opening() {
        let files = MemoryFiles::default();
        let writers = files.beneath("writers");
        assert!(writers.open("a", Missing::Refuse).is_err());
        let one = writers.open("a", Missing::CreateNew).unwrap();
        assert!(writers.open("a", Missing::CreateNew).is_err());
        one.write_all_at(b"text", 0).unwrap();
        one.lock().unwrap();
        let other = files.beneath("writers").open("a", Missing::Create).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        let mut text = [0; 4];
        other.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"text");
        drop(one);
        other.try_lock().unwrap();
        files.open(".hidden", Missing::Create).unwrap();
        assert_eq!(
            (files.names(), writers.names()),
            (vec![], vec!["a".to_owned()])
        );
        writers.remove("a");
        assert_eq!(writers.names(), Vec::<String>::new());
    }

    #[test]
    fn the_key_is_made_once() {
        let files = MemoryFiles::default();
        let key = files.signing_key().unwrap();
        assert_eq!(files.clone().signing_key().unwrap(), key);
        assert_ne!(MemoryFiles::default().signing_key().unwrap(), key);
    }
}
