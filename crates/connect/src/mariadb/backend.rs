//! A server's thread that runs a statement, and its end. A statement that is to stop is killed in the
//! server, and its thread is seen to be gone before anybody is told that it has ended.

use std::{sync::Arc, time::Duration};

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{Conn, Error, prelude::Queryable as _};

use super::{failure::failed, session::Connector};
use crate::halt::Halt;

/// How long the end of a thread is waited for: less than a stopped call has.
const END_WAIT: Duration = Duration::from_millis(1_300);

/// How long a commit is waited for: it ends at the server's disk, and whoever gives it up knows nothing.
const COMMIT_WAIT: Duration = Duration::from_secs(30);

/// What is said where a rollback left something.
const STAYS: &str = "what its triggers or functions wrote to tables without transactions stays, and the \
    server does not say what that is";

/// What is said where nobody knows whether a rollback was done. The server does it with the connection's end.
const UNCONFIRMED: &str = "the server did not confirm that it took the change back";

/// When the connection of a statement that was told to stop is ended too.
const UNTIL_TERMINATED: Duration = Duration::from_millis(300);

/// How often it is looked whether it is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// A connection whose thread ends with this value, whatever it is doing.
pub(super) struct Backend {
    connector: Arc<Connector>,
    conn: Option<Conn>,
    id: Option<u64>,
}

impl Backend {
    pub(super) fn new(connector: Arc<Connector>, conn: Conn) -> Self {
        Self {
            connector,
            conn: Some(conn),
            id: None,
        }
    }

    /// The server's number for the connection, which is known once its settings are.
    pub(super) fn runs_as(&mut self, id: u64) {
        self.id = Some(id);
    }

    /// The connection. Only what ends the value takes it.
    pub(super) fn conn(&mut self) -> Result<&mut Conn, OpsError> {
        let conn = self.conn.as_mut();
        conn.ok_or_else(|| OpsError::new(ErrorKind::Internal, "the connection was ended"))
    }

    /// Ends a transaction that only read, and the connection.
    pub(super) async fn roll_back(self) {
        self.take_back().await;
    }

    /// Takes back what the transaction did and ends the connection. Returns what of it may stay: what
    /// triggers and functions wrote to tables of engines without transactions does, and only the server
    /// knows of those.
    async fn take_back(mut self) -> Option<&'static str> {
        let mut conn = self.conn.take()?;
        // What fails here ends with the connection all the same.
        let undone = async {
            let undone = conn.query_drop("ROLLBACK").await;
            let stays = match undone {
                Ok(()) if conn.get_warnings() > 0 => Some(STAYS),
                Ok(()) => None,
                Err(_) => Some(UNCONFIRMED),
            };
            drop(conn.disconnect().await);
            stays
        };
        let undone = tokio::time::timeout(END_WAIT, undone).await;
        undone.unwrap_or(Some(UNCONFIRMED))
    }

    /// Ends a change: commits it, takes it back if it failed, or kills it if it was told to stop.
    pub(super) async fn settle<T>(
        self,
        changed: Result<T, OpsError>,
        halt: &Halt,
    ) -> Result<T, OpsError> {
        let error = match changed {
            // Not stopped from here on: whether a commit that is given up happened is unknown.
            Ok(changed) => return self.commit().await.map(|()| changed),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::TimedOut => Err(self.end(halt.timed_out()).await),
            ErrorKind::Cancelled => Err(self.end(error).await),
            kind => match self.take_back().await {
                None => Err(error),
                Some(stays) => {
                    let message = format!("{}; {stays}", error.message());
                    Err(OpsError::new(kind, message))
                }
            },
        }
    }

    /// Commits. A connection that is lost meanwhile leaves open whether it happened.
    async fn commit(mut self) -> Result<(), OpsError> {
        let Some(mut conn) = self.conn.take() else {
            return Ok(());
        };
        let committed = tokio::time::timeout(COMMIT_WAIT, conn.query_drop("COMMIT")).await;
        match committed {
            Ok(Ok(())) => {
                drop(tokio::time::timeout(END_WAIT, conn.disconnect()).await);
                Ok(())
            }
            Ok(Err(error)) if matches!(error, Error::Server(_)) => Err(failed(&error)),
            Ok(Err(_)) | Err(_) => Err(OpsError::new(
                ErrorKind::Lost,
                "the connection was lost while the change was being committed; look whether it took effect",
            )),
        }
    }

    /// Ends a query of which no more rows are wanted. The server may still be sending.
    pub(super) async fn cancel(mut self) {
        if let Some(conn) = self.conn.take() {
            drop(tokio::time::timeout(END_WAIT, kill(&self.connector, conn, self.id)).await);
        }
    }

    /// Kills the statement and sees that its thread is gone. `stop` is what the caller is told; it says
    /// so if the server did not confirm.
    pub(super) async fn end(mut self, stop: OpsError) -> OpsError {
        let Some(conn) = self.conn.take() else {
            return stop;
        };
        let gone = kill(&self.connector, conn, self.id);
        if tokio::time::timeout(END_WAIT, gone).await.unwrap_or(false) {
            return stop;
        }
        OpsError::new(
            stop.kind(),
            format!(
                "{}; the server was told to end it and did not say that it has",
                stop.message()
            ),
        )
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Whoever waited is gone: nobody is told, and the server must not go on all the same.
        if let Some(conn) = self.conn.take() {
            let (connector, id) = (Arc::clone(&self.connector), self.id);
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    drop(tokio::time::timeout(END_WAIT, kill(&connector, conn, id)).await);
                });
            }
        }
    }
}

/// Kills what runs on a connection, lets go of it, and looks until its thread is gone; whether it is.
async fn kill(connector: &Connector, conn: Conn, id: Option<u64>) -> bool {
    // Before its number is known, nothing of a tool's runs on it.
    let Some(id) = id else {
        return true;
    };
    let Ok(mut watching) = connector.connect().await else {
        return false;
    };
    // A thread that is gone already is an error, and no matter.
    drop(watching.query_drop(format!("KILL QUERY {id}")).await);
    // The driver reads what is left before it closes a connection, which is little now.
    drop(conn);
    let gone = until_gone(&mut watching, id).await;
    drop(watching.disconnect().await);
    gone
}

/// Looks until the thread is gone. One that does not heed the kill loses its connection.
async fn until_gone(watching: &mut Conn, id: u64) -> bool {
    let began = tokio::time::Instant::now();
    let mut told = false;
    loop {
        let still = format!("SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {id}");
        match watching.query_first::<u8, _>(still).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return false,
        }
        if !told && began.elapsed() >= UNTIL_TERMINATED {
            told = true;
            // Of its own role, which every role may.
            drop(watching.query_drop(format!("KILL CONNECTION {id}")).await);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
