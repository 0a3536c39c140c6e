//! The state of mounted servers in every running Haft: each writes it to a file, `haft mcp status`
//! reads them.
//!
//! A file counts only while its writer holds the lock next to it. The system releases the lock when
//! the writer ends, however it ends.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{pins, private};

/// The directory, below that of mounted servers.
const DIRECTORY: &str = "running";

/// The key that says why a process keeps its old rules.
pub(crate) const KEPT_RULES: &str = "kept_rules";

/// The largest file that is read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The most files that are read.
const MAX_FILES: usize = 256;

/// This process's own file; removed when dropped.
#[derive(Debug)]
pub struct ProcessFile {
    path: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl ProcessFile {
    /// Takes a file for this process. Never waits: returns `WouldBlock` if somebody holds its lock,
    /// either to check briefly whether this process is alive, or to block it on purpose.
    pub fn begin(data_dir: &Path) -> std::io::Result<Self> {
        let directory = directory(data_dir);
        private::make_directory(&directory)?;
        let name = std::process::id().to_string();
        let lock = directory.join(format!("{name}.lock"));
        let held = open(&lock)?;
        held.try_lock()?;
        // Somebody who checked before the lock was held took the file for a leftover and removed
        // it.
        if fs::metadata(&lock).map(|there| there.ino()).ok() != Some(held.metadata()?.ino()) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        Ok(Self {
            path: directory.join(format!("{name}.json")),
            lock,
            _held: held,
        })
    }

    /// Writes the state of the servers.
    pub fn write(&self, status: &Value) -> std::io::Result<()> {
        private::replace(&self.path, status.to_string().as_bytes())
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        // What is left does not count, since nobody holds its lock.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock);
    }
}

/// What every running Haft wrote.
pub fn read(data_dir: &Path) -> Vec<Value> {
    let directory = directory(data_dir);
    let Ok(entries) = fs::read_dir(&directory) else {
        return Vec::new();
    };
    let mut names: Vec<PathBuf> = entries
        .take(2 * MAX_FILES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    names.sort();
    names
        .into_iter()
        .filter(|path| {
            let lives = lives(&path.with_extension("lock"));
            if !lives {
                let _ = fs::remove_file(path);
            }
            lives
        })
        .filter_map(|path| private::read_own(&path, MAX_BYTES).ok().flatten())
        .filter_map(|bytes| serde_json::from_slice(&bytes).ok())
        .collect()
}

/// A running Haft whose rules are not those that were trusted last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRules {
    /// The process.
    pub pid: u64,
    /// Why it keeps the old ones.
    pub why: String,
}

/// Every running Haft that keeps old rules, because it cannot use those trusted last.
pub fn kept_rules(data_dir: &Path) -> Vec<KeptRules> {
    let of = |status: &Value| {
        Some(KeptRules {
            pid: status.get("pid")?.as_u64()?,
            why: status.get(KEPT_RULES)?.as_str()?.to_owned(),
        })
    };
    read(data_dir).iter().filter_map(of).collect()
}

/// Whether somebody holds a lock.
fn lives(lock: &Path) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(lock) else {
        return false;
    };
    let held = file.try_lock_shared().is_err();
    if !held {
        let _ = fs::remove_file(lock);
    }
    held
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join(pins::DIRECTORY).join(DIRECTORY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lock_that_somebody_holds_is_not_waited_for() {
        let data = tempfile::tempdir().unwrap();
        let running = ProcessFile::begin(data.path()).unwrap();
        let lock = running.lock.clone();
        drop(running);
        let somebody = open(&lock).unwrap();
        somebody.lock().unwrap();
        let refused = ProcessFile::begin(data.path()).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
        drop(somebody);
        ProcessFile::begin(data.path()).unwrap();
    }

    #[test]
    fn what_a_dead_process_wrote_is_not_believed() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(read(data.path()), [] as [Value; 0]);
        let running = ProcessFile::begin(data.path()).unwrap();
        running.write(&json!({"a": 1})).unwrap();
        assert_eq!(read(data.path()), [json!({"a": 1})]);
        let (path, lock) = (running.path.clone(), running.lock.clone());
        drop(running);
        assert_eq!(read(data.path()), [] as [Value; 0]);
        // As after a crash: both files are there, and nobody holds the lock.
        fs::write(&path, "{}").unwrap();
        fs::write(&lock, "").unwrap();
        assert_eq!(read(data.path()), [] as [Value; 0]);
        assert!(!path.exists());
    }
}
