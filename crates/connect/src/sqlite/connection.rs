//! Opening the file, and working with it on a thread that is interrupted when it must stop.

use std::{path::Path, time::Duration};

use haft_contract::{ErrorKind, ops::OpsError};
use rusqlite::{Connection, InterruptHandle, OpenFlags, config::DbConfig, limits::Limit};
use tokio::sync::oneshot;

use super::{SqliteSource, failed};
use crate::halt::Halt;

/// How long SQLite waits for another writer at a time.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The longest text or blob SQLite makes, in bytes.
const MAX_VALUE_BYTES: i32 = 64 * 1024 * 1024;

/// How long an interrupted statement is waited for: less than a stopped call has.
const END_WAIT: Duration = Duration::from_millis(1_300);

/// Whether a connection can change the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenedFor {
    SqlReading,
    Writing,
}

pub(super) fn open(path: &Path, purpose: OpenedFor) -> Result<Connection, OpsError> {
    // Not by URI, which could ask for another mode.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match purpose {
            OpenedFor::SqlReading => OpenFlags::SQLITE_OPEN_READ_ONLY,
            OpenedFor::Writing => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failed(&error))?;
    let prepare = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_WAIT)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
        connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
        if purpose == OpenedFor::SqlReading {
            connection.pragma_update(None, "query_only", true)?;
        }
        Ok(())
    };
    prepare().map_err(|error| failed(&error))?;
    Ok(connection)
}

impl SqliteSource {
    /// Works with a connection that reads, on a thread of its own.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        halt: &Halt,
        work: impl FnOnce(&Connection) -> Result<T, OpsError> + Send + 'static,
    ) -> Result<T, OpsError> {
        let (told, interrupt) = oneshot::channel();
        let path = self.path.clone();
        let working = tokio::task::spawn_blocking(move || {
            let connection = open(&path, OpenedFor::SqlReading)?;
            // Nobody listens if the call has ended already; then it is not begun.
            if told.send(connection.get_interrupt_handle()).is_err() {
                return Err(OpsError::new(
                    ErrorKind::Cancelled,
                    "the statement was cancelled",
                ));
            }
            work(&connection)
        });
        finish(working, interrupt, halt).await
    }
}

/// Waits for a thread that works with SQLite, and interrupts it when it must stop.
pub(super) async fn finish<T>(
    mut working: tokio::task::JoinHandle<Result<T, OpsError>>,
    interrupt: oneshot::Receiver<InterruptHandle>,
    halt: &Halt,
) -> Result<T, OpsError> {
    let mut interrupting = Interrupting::new(interrupt);
    let stop = tokio::select! {
        biased;
        worked = &mut working => {
            interrupting.disarm();
            return worked.unwrap_or_else(|_| Err(stopped_by_fault()));
        }
        stop = halt.reached() => stop,
    };
    interrupting.interrupt();
    match tokio::time::timeout(END_WAIT, working).await {
        Ok(_) => Err(stop),
        Err(_) => Err(OpsError::new(
            stop.kind(),
            format!(
                "{}; SQLite was told to end it and has not yet",
                stop.message()
            ),
        )),
    }
}

fn stopped_by_fault() -> OpsError {
    OpsError::new(ErrorKind::Internal, "the statement could not be run")
}

/// Interrupts the statement when it is dropped: a thread cannot be.
struct Interrupting {
    arriving: Option<oneshot::Receiver<InterruptHandle>>,
}

impl Interrupting {
    fn new(arriving: oneshot::Receiver<InterruptHandle>) -> Self {
        Self {
            arriving: Some(arriving),
        }
    }

    fn disarm(&mut self) {
        self.arriving = None;
    }

    fn interrupt(&mut self) {
        // If the handle has not arrived, closing the channel keeps the statement from beginning.
        if let Some(mut arriving) = self.arriving.take() {
            match arriving.try_recv() {
                Ok(handle) => handle.interrupt(),
                Err(_) => arriving.close(),
            }
        }
    }
}

impl Drop for Interrupting {
    fn drop(&mut self) {
        self.interrupt();
    }
}
