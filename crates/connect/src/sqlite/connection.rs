//! Opening the file, and working with it on a thread that is told to stop when it must.
//!
//! A thread ends when SQLite heeds that, which it does between the steps of a statement and not within
//! one. So the thread keeps the statement's place until it has ended, and the outcome says if it had
//! not yet.

use std::{path::Path, thread, time::Duration};

use haft_contract::{ErrorKind, ops::OpsError};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use tokio::{sync::oneshot, time::Instant};

use super::{
    SqliteSource, failed,
    limits::limit,
    stop::{StopSign, Stopping},
};
use crate::{halt::Halt, statement_slot::StatementSlot};

/// How long another writer is waited for.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How long SQLite waits for it at a time: it heeds nothing meanwhile.
const BUSY_STEP: Duration = Duration::from_millis(50);

/// How long a statement that was told to stop is waited for: less than a stopped call has.
const END_WAIT: Duration = Duration::from_millis(1_300);

/// After how many steps of a statement SQLite looks whether it must stop.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;

/// Whether a connection can change the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenedFor {
    SqlReading,
    Writing,
}

/// A connection in a transaction, and when its work must stop.
pub(super) struct OpenTransaction {
    pub(super) connection: Connection,
    pub(super) stop: StopSign,
}

/// Opens the file.
pub(super) fn open(path: &Path, purpose: OpenedFor) -> Result<Connection, OpsError> {
    // Not by URI, which could ask for another mode.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX
        | match purpose {
            OpenedFor::SqlReading => OpenFlags::SQLITE_OPEN_READ_ONLY,
            OpenedFor::Writing => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failed(&error))?;
    let prepare = || -> rusqlite::Result<()> {
        connection.busy_timeout(BUSY_STEP)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        limit(&connection)?;
        if purpose == OpenedFor::SqlReading {
            connection.pragma_update(None, "query_only", true)?;
        }
        Ok(())
    };
    prepare().map_err(|error| failed(&error))?;
    Ok(connection)
}

impl OpenTransaction {
    /// Begins the transaction and reads the schema in it: what the fence is told of the file stays
    /// true until the statement has ended.
    fn begin(&self, purpose: OpenedFor) -> Result<(), OpsError> {
        let stop = self.stop.clone();
        let look = self
            .connection
            .progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop.is_set()));
        look.map_err(|error| failed(&error))?;
        let (first, undo) = match purpose {
            OpenedFor::SqlReading => ("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1", "ROLLBACK"),
            OpenedFor::Writing => ("BEGIN IMMEDIATE", ""),
        };
        self.unless_busy(|| {
            let began = self.connection.execute_batch(first);
            if began.is_err() && !self.connection.is_autocommit() {
                self.connection.execute_batch(undo)?;
            }
            began
        })
    }

    /// Commits, unless the thread was told to stop before.
    pub(super) fn commit(&self) -> Result<(), OpsError> {
        self.unless_busy(|| {
            if !self.stop.may_commit() {
                return Err(interrupted());
            }
            let committed = self.connection.execute_batch("COMMIT");
            if committed.is_err() {
                self.stop.does_not_commit();
            }
            committed
        })
    }

    /// Does something that another writer may be in the way of, until it is not.
    #[expect(
        clippy::disallowed_methods,
        reason = "SQLite's own thread, for a moment at a time"
    )]
    fn unless_busy(&self, mut work: impl FnMut() -> rusqlite::Result<()>) -> Result<(), OpsError> {
        let began = Instant::now();
        loop {
            let Err(error) = work() else {
                return Ok(());
            };
            let busy = matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            );
            if self.stop.is_set() {
                return Err(cancelled());
            }
            if !busy || began.elapsed() >= BUSY_WAIT {
                return Err(failed(&error));
            }
            // Some kinds of busy are told at once.
            thread::sleep(BUSY_STEP);
        }
    }
}

impl SqliteSource {
    /// Works with a connection on a thread of its own.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        purpose: OpenedFor,
        (halt, place): (&Halt, &StatementSlot),
        work: impl FnOnce(&OpenTransaction) -> Result<T, OpsError> + Send + 'static,
    ) -> Result<T, OpsError> {
        let (told, interrupt) = oneshot::channel();
        let path = self.path.clone();
        let place = place.clone();
        let stop = StopSign::default();
        let mut stopping = Stopping::new(stop.clone(), interrupt);
        let sign = stop.clone();
        let mut working = tokio::task::spawn_blocking(move || {
            // Let go of when everything here has ended.
            let _place = place;
            let connection = open(&path, purpose)?;
            // Nobody listens if the call has ended already.
            if told.send(connection.get_interrupt_handle()).is_err() {
                return Err(cancelled());
            }
            let opened = OpenTransaction {
                connection,
                stop: sign,
            };
            opened.begin(purpose)?;
            work(&opened)
        });
        let why = tokio::select! {
            biased;
            worked = &mut working => {
                stopping.disarm();
                return worked.unwrap_or_else(|_| Err(stopped_by_fault()));
            }
            why = halt.reached() => why,
        };
        stopping.stop();
        match tokio::time::timeout(END_WAIT, working).await {
            // It had done everything, a commit perhaps.
            Ok(Ok(Ok(done))) => Ok(done),
            Ok(_) => Err(why),
            Err(_) if stop.is_committing() => Err(OpsError::new(
                ErrorKind::Lost,
                format!(
                    "{}, while the change was being committed; look whether it took effect",
                    halt.met(&why)
                ),
            )),
            Err(_) => Err(OpsError::new(
                why.kind(),
                format!(
                    "{}; SQLite was told to end it and has not yet, and it keeps one of the \
                     source's connections until then",
                    halt.met(&why)
                ),
            )),
        }
    }
}

fn cancelled() -> OpsError {
    OpsError::new(ErrorKind::Cancelled, "the statement was cancelled")
}

fn interrupted() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

fn stopped_by_fault() -> OpsError {
    OpsError::new(ErrorKind::Internal, "the statement could not be run")
}
