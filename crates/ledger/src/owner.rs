//! Who writes. Each ledger instance locks a file of its own for as long as it lives; the kernel drops
//! the lock however the process ends. A name is used again once its lock is free, so that there are as
//! many names, and chains, as there were writers at once. Whoever holds the lock of a name may settle
//! the calls that were left open under it, so a call that still runs is never settled.

use std::{
    fs::{File, TryLockError},
    io,
};

use crate::directory::{DirectoryError, PrivateDirectory, random_name};

/// The directory of lock files.
const WRITERS: &str = "writers";

/// A writer's name, locked.
#[derive(Debug)]
pub(crate) struct WriterLock {
    name: String,
    /// Held, never read: closing it would signal that this process is gone.
    _lock: File,
}

impl WriterLock {
    /// The name its calls and its chains are recorded under.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Locks every name whose process is gone; a new one if there is none. The first is this process's,
/// and the others are held until the calls left under them are settled.
pub(crate) fn free_writers(
    directory: &PrivateDirectory,
) -> Result<Vec<WriterLock>, DirectoryError> {
    let writers = directory.subdirectory(WRITERS)?;
    let locked = || -> io::Result<Vec<WriterLock>> {
        let mut names = writers.names()?;
        names.sort_unstable();
        let mut free = Vec::new();
        for name in names {
            let lock = writers.open_existing(&name)?;
            match lock.try_lock() {
                Ok(()) => free.push(WriterLock { name, _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        if free.is_empty() {
            let name = random_name()?;
            let lock = writers.create_new(&name)?;
            lock.lock()?;
            free.push(WriterLock { name, _lock: lock });
        }
        Ok(free)
    };
    locked().map_err(|source| DirectoryError::Io {
        path: writers.path().to_owned(),
        source,
    })
}

/// Names whose processes are there, other than this one.
pub(crate) fn held_writers(
    directory: &PrivateDirectory,
    own: &str,
) -> Result<Vec<String>, DirectoryError> {
    let writers = directory.subdirectory(WRITERS)?;
    let held = || -> io::Result<Vec<String>> {
        let mut held = Vec::new();
        for name in writers.names()? {
            if name == own {
                continue;
            }
            match writers.open_existing(&name)?.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => held.push(name),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(held)
    };
    held().map_err(|source| DirectoryError::Io {
        path: writers.path().to_owned(),
        source,
    })
}

/// Identifies this boot of the machine, for people who read the table of writers.
pub(crate) fn boot_id() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a fact about the machine from /proc, not a tool's file"
    )]
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}
