//! The record in one SQLite file: one connection that writes, a few that read.
//!
//! `connection.rs` runs statements, `readers.rs` keeps the connections that read, `text.rs` is full
//! text, and `migrate.rs` is the schema. One transaction writes at a time, so there is nothing to lock;
//! whose rows a statement is about, its text says.

mod connection;
pub(crate) mod memory;
pub(crate) mod migrate;
mod readers;
mod text;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::BoxFuture;

use self::{connection::WritingConnection, readers::Readers};
use crate::{
    directory::{DirectoryError, PrivateDirectory},
    open_error::OpenError,
    store::{Connection, Scope, Store, StoreError},
};

/// The name of the database file in the record's directory.
const DATABASE: &str = "ledger.db";

/// How long one process waits for another's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// How many statements stay prepared: more than the ledger has.
const STATEMENTS: usize = 128;

/// A record's database file.
pub(crate) struct SqliteStore {
    path: PathBuf,
    readers: Arc<Readers>,
}

impl SqliteStore {
    /// Makes the file private before SQLite opens it: the files SQLite creates next to it get the
    /// same permissions.
    pub(crate) fn prepare(directory: &PrivateDirectory) -> Result<Self, DirectoryError> {
        let path = directory.path().join(DATABASE);
        directory
            .open_or_create(DATABASE)
            .and_then(|file| {
                rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
                Ok(())
            })
            .map_err(|source| DirectoryError::Io {
                path: path.clone(),
                source,
            })?;
        Ok(Self::at(path))
    }

    /// The database at this place, which is a path, or an address within the memory of this process.
    pub(crate) fn at(place: impl Into<PathBuf>) -> Self {
        let path = place.into();
        Self {
            readers: Arc::new(Readers::new(path.clone())),
            path,
        }
    }

    /// A connection that only keeps a database in memory while nobody else has it open.
    pub(crate) fn anchor(place: &str) -> Result<rusqlite::Connection, StoreError> {
        open(Path::new(place)).map_err(connection::failed)
    }
}

impl Store for SqliteStore {
    fn open(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, OpenError>> {
        Box::pin(async move {
            let mut connection = WritingConnection::open(&self.path)?;
            migrate::migrate(&mut connection).await?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn writer(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async move {
            let connection = WritingConnection::open(&self.path)?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn reader<'a>(
        &'a self,
        _: Scope<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async move {
            let reader = readers::reader(&self.readers).await?;
            Ok(Box::new(reader) as Box<dyn Connection>)
        })
    }

    fn close(&self) {
        self.readers.close();
    }
}

/// A connection, set up as every one is.
fn open(path: &Path) -> Result<rusqlite::Connection, rusqlite::Error> {
    let connection = rusqlite::Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.execute_batch("PRAGMA journal_mode = wal; PRAGMA temp_store = memory")?;
    Ok(connection)
}
