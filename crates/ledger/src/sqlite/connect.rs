//! Opens the database file, for writing and for reading.

use std::{io, path::Path, time::Duration};

use sqlx::{
    ConnectOptions as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::directory::{DirectoryError, PrivateDirectory};

/// The name of the database file in the record's directory.
pub(crate) const DATABASE: &str = "ledger.db";

/// How long one process waits for another's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// The number of reading connections.
const READERS: u32 = 4;

/// How long a read waits for a connection.
const READER_WAIT: Duration = Duration::from_secs(10);

/// Why the record cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory is unsuitable.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The record was written by a newer Haft.
    #[error(
        "the record has schema {found}, this version knows {known}; use the newer haft, or another directory"
    )]
    NewerSchema {
        /// The schema of the record.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// Somebody else changed the end of the record.
    #[error(
        "the end of the record is not signed by this ledger; `haft log verify` names the place"
    )]
    Tampered,
    /// Another process is opening the record and has not finished.
    #[error("another process has been opening the record for too long")]
    Busy,
    /// The database cannot be read or written.
    #[error("the record cannot be opened")]
    Database(#[source] sqlx::Error),
    /// The writer's thread could not be started.
    #[error("the writer of the record could not be started")]
    Thread(#[source] io::Error),
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Makes the database file private before SQLite opens it: the files SQLite creates next to it get
/// the same permissions.
pub(crate) fn prepare(directory: &PrivateDirectory) -> Result<(), DirectoryError> {
    directory
        .open_or_create(DATABASE)
        .and_then(|file| {
            rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            Ok(())
        })
        .map_err(|source| DirectoryError::Io {
            path: directory.path().join(DATABASE),
            source,
        })
}

/// The connection that writes: every commit survives a power cut.
pub(crate) async fn writer(directory: &Path) -> Result<SqliteConnection, sqlx::Error> {
    options(directory)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await
}

/// Connections that only read, opened when needed.
pub(crate) fn readers(directory: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(READER_WAIT)
        // No pool task on the runtime in which the ledger was opened.
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options(directory).pragma("query_only", "on"))
}

fn options(directory: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(directory.join(DATABASE))
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(BUSY_WAIT)
        .pragma("temp_store", "memory")
        .disable_statement_logging()
}
