//! A record in memory: the same ledger without a file. It ends with the last clone of its handle.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    artifacts::memory::MemoryArtifacts, directory::random_name, memory_files::MemoryFiles,
    sqlite::SqliteStore, store::StoreError,
};

/// A record in the memory of this process. Clones are the same record, and several ledgers may have
/// it open, as several processes may have one in a file.
#[derive(Clone)]
pub struct MemoryRecord(Arc<MemoryState>);

struct MemoryState {
    name: String,
    files: MemoryFiles,
    artifacts: MemoryArtifacts,
    /// Keeps the database while no ledger has it open. Opened with the first.
    anchor: Mutex<Option<rusqlite::Connection>>,
}

impl MemoryRecord {
    /// An empty record.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(MemoryState {
            name: random_name()?,
            files: MemoryFiles::default(),
            artifacts: MemoryArtifacts::default(),
            anchor: Mutex::default(),
        })))
    }

    pub(crate) fn files(&self) -> &MemoryFiles {
        &self.0.files
    }

    pub(crate) fn artifacts(&self) -> MemoryArtifacts {
        self.0.artifacts.clone()
    }

    /// The database, which exists from now on.
    pub(crate) fn store(&self) -> Result<SqliteStore, StoreError> {
        let place = self.database();
        let mut anchor = self.0.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        if anchor.is_none() {
            *anchor = Some(SqliteStore::anchor(&place)?);
        }
        Ok(SqliteStore::at(place))
    }

    /// How many artifacts it keeps.
    #[doc(hidden)]
    pub fn kept_artifacts(&self) -> usize {
        self.0.artifacts.count()
    }

    /// Where SQLite finds the database within this process.
    #[doc(hidden)]
    pub fn database(&self) -> String {
        // A name that begins with a slash is shared by all connections of the process.
        format!("file:/haft-{}?vfs=memdb", self.0.name)
    }
}

impl fmt::Debug for MemoryRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRecord")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}
