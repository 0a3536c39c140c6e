//! Who holds open calls. Each ledger instance locks its own file for as long as it lives; the
//! kernel drops the lock however the process ends. Recovery settles an owner's calls only once it
//! holds that owner's lock, so it can never settle a call that still runs.

use std::{
    fs::{File, TryLockError},
    io,
};

use crate::directory::{DirectoryError, PrivateDirectory, random_name};

/// The directory of lock files.
const OWNERS: &str = "owners";

/// This instance's own lock.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    id: String,
    /// Held, never read: closing it would signal that this process is gone.
    _lock: File,
}

impl InstanceLock {
    /// Creates a new lock. It is held before anything is recorded under its name.
    pub(crate) fn register(directory: &PrivateDirectory) -> Result<Self, DirectoryError> {
        let owners = directory.subdirectory(OWNERS)?;
        let register = || -> io::Result<Self> {
            let id = random_name()?;
            let lock = owners.create_new(&id)?;
            lock.lock()?;
            Ok(Self { id, _lock: lock })
        };
        register().map_err(|source| DirectoryError::Io {
            path: owners.path().to_owned(),
            source,
        })
    }

    /// The name its calls are recorded under.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

/// Takes over the lock of an owner that is gone. `None` while it lives. Dropping the result without
/// [`forget`] leaves the owner to the next recovery.
pub(crate) fn take_over(
    directory: &PrivateDirectory,
    id: &str,
) -> Result<Option<GoneOwner>, DirectoryError> {
    let owners = directory.subdirectory(OWNERS)?;
    let failed = |source| DirectoryError::Io {
        path: owners.path().to_owned(),
        source,
    };
    match owners.open_existing(id) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Ok(Some(GoneOwner { _lock: Some(lock) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        },
        // Its lock file is removed only after its calls were settled, or on a clean close.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Some(GoneOwner { _lock: None }))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Proof that an owner is gone.
#[derive(Debug)]
pub(crate) struct GoneOwner {
    _lock: Option<File>,
}

/// The names of all lock files.
pub(crate) fn names(directory: &PrivateDirectory) -> Result<Vec<String>, DirectoryError> {
    let owners = directory.subdirectory(OWNERS)?;
    owners.names().map_err(|source| DirectoryError::Io {
        path: owners.path().to_owned(),
        source,
    })
}

/// Removes the lock file of an owner without open calls.
pub(crate) fn forget(directory: &PrivateDirectory, id: &str) {
    let removed = directory
        .subdirectory(OWNERS)
        .map_err(io::Error::other)
        .and_then(|owners| owners.remove(id));
    if let Err(error) = removed {
        // A leftover lock file costs a few bytes, and the next recovery tries again.
        tracing::debug!(%error, "a lock file could not be removed");
    }
}

/// Identifies this boot of the machine, for people who read the owner table.
pub(crate) fn boot_id() -> String {
    #[expect(
        clippy::disallowed_methods,
        reason = "a fact about the machine from /proc, not a tool's file"
    )]
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}
