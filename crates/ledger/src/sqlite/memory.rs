//! A database in the memory of this process, which all its connections share.

use std::sync::{Mutex, PoisonError};

use super::SqliteStore;
use crate::store::StoreError;

/// A database that is there for as long as this is.
pub(crate) struct MemoryDatabase {
    name: String,
    /// Keeps the database while no ledger has it open. Opened with the first.
    anchor: Mutex<Option<rusqlite::Connection>>,
}

impl MemoryDatabase {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            anchor: Mutex::default(),
        }
    }

    /// The database, which exists from now on.
    pub(crate) fn store(&self) -> Result<SqliteStore, StoreError> {
        let place = self.place();
        let mut anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        if anchor.is_none() {
            *anchor = Some(SqliteStore::anchor(&place)?);
        }
        Ok(SqliteStore::at(place))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is found within this process.
    pub(crate) fn place(&self) -> String {
        // A name that begins with a slash is shared by all connections of the process.
        format!("file:/haft-{}?vfs=memdb", self.name)
    }
}
