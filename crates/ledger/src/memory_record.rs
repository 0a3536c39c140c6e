//! A record in memory: the same ledger without a file. It ends with the last clone of its handle.

use std::{fmt, io, sync::Arc};

use crate::{
    artifacts::memory::MemoryArtifacts, directory::random_name, memory_files::MemoryFiles,
    open_store::MemoryDatabase,
};

/// A record in the memory of this process. Clones are the same record, and several ledgers may have
/// it open, as several processes may have one in a file.
#[derive(Clone)]
pub struct MemoryRecord(Arc<MemoryState>);

struct MemoryState {
    database: MemoryDatabase,
    files: MemoryFiles,
    artifacts: MemoryArtifacts,
}

impl MemoryRecord {
    /// An empty record.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(MemoryState {
            database: MemoryDatabase::new(random_name()?),
            files: MemoryFiles::default(),
            artifacts: MemoryArtifacts::default(),
        })))
    }

    pub(crate) fn files(&self) -> &MemoryFiles {
        &self.0.files
    }

    pub(crate) fn artifacts(&self) -> MemoryArtifacts {
        self.0.artifacts.clone()
    }

    pub(crate) fn memory_database(&self) -> &MemoryDatabase {
        &self.0.database
    }

    /// How many artifacts it keeps.
    #[doc(hidden)]
    pub fn kept_artifacts(&self) -> usize {
        self.0.artifacts.count()
    }

    /// Where a test finds the database within this process.
    #[doc(hidden)]
    pub fn database(&self) -> String {
        self.0.database.place()
    }
}

impl fmt::Debug for MemoryRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRecord")
            .field("name", &self.0.database.name())
            .finish_non_exhaustive()
    }
}
