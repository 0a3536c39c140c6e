//! A server's process that runs a statement, and its end. A statement that is to stop is cancelled in
//! the server, and the process is seen to be gone before anybody is told that it has ended.

use std::time::Duration;

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::{CancelToken, Client, NoTls, config::Config};

use super::{PostgresSource, plain, tls::VerifiedTls};

/// How long the end of a process is waited for: less than a stopped call has.
const END_WAIT: Duration = Duration::from_millis(1_300);

/// When a process that was told to stop is ended.
const UNTIL_TERMINATED: Duration = Duration::from_millis(300);

/// How often it is looked whether it is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// A connection whose process ends with this value, whatever it is doing.
pub(super) struct Backend<'s> {
    source: &'s PostgresSource,
    client: Option<Client>,
    pid: Option<i32>,
}

impl<'s> Backend<'s> {
    pub(super) fn new(source: &'s PostgresSource, client: Client) -> Self {
        Self {
            source,
            client: Some(client),
            pid: None,
        }
    }

    pub(super) fn runs_as(&mut self, pid: i32) {
        self.pid = Some(pid);
    }

    /// The connection. Only what ends the value takes it.
    pub(super) fn client(&self) -> Result<&Client, OpsError> {
        let client = self.client.as_ref();
        client.ok_or_else(|| OpsError::new(ErrorKind::Internal, "the connection was ended"))
    }

    /// Cancels what runs, and does not wait until it has ended.
    pub(super) async fn cancel(&self) {
        if let Some(client) = &self.client {
            let cancel = client.cancel_token();
            let sent = send_cancel(&cancel, self.source.tls.as_ref(), &self.source.config);
            drop(tokio::time::timeout(END_WAIT, sent).await);
        }
    }

    /// Ends a transaction that only read. The process ends with the connection.
    pub(super) async fn roll_back(mut self) {
        if let Some(client) = self.client.take() {
            // What fails here ends with the connection all the same.
            let undone = client.batch_execute("ROLLBACK; DISCARD ALL");
            drop(tokio::time::timeout(END_WAIT, undone).await);
        }
    }

    /// Commits. A connection that is lost meanwhile leaves open whether it happened.
    pub(super) async fn commit(mut self) -> Result<(), tokio_postgres::Error> {
        match self.client.take() {
            Some(client) => client.batch_execute("COMMIT").await,
            None => Ok(()),
        }
    }

    /// Cancels the statement and sees that its process is gone. `stop` is what the caller is told; it
    /// says so if the server did not confirm.
    pub(super) async fn end(mut self, stop: OpsError) -> OpsError {
        let Some(client) = self.client.take() else {
            return stop;
        };
        let cancel = client.cancel_token();
        let gone = async {
            let (cancelled, watching) = tokio::join!(
                send_cancel(&cancel, self.source.tls.as_ref(), &self.source.config),
                self.source.connect()
            );
            drop(client);
            drop(cancelled);
            let Ok(watching) = watching else {
                return false;
            };
            match self.pid {
                Some(pid) => until_gone(&watching, pid).await,
                None => true,
            }
        };
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

impl Drop for Backend<'_> {
    fn drop(&mut self) {
        // Whoever waited is gone: nobody is told, and the server must not go on all the same.
        if let Some(client) = self.client.take() {
            let cancel = client.cancel_token();
            let tls = self.source.tls.clone();
            let config = self.source.config.clone();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    let sent = send_cancel(&cancel, tls.as_ref(), &config);
                    drop(tokio::time::timeout(END_WAIT, sent).await);
                    drop(client);
                });
            }
        }
    }
}

async fn send_cancel(
    cancel: &CancelToken,
    tls: Option<&VerifiedTls>,
    config: &Config,
) -> Result<(), tokio_postgres::Error> {
    match tls {
        Some(tls) => cancel.cancel_query(tls.clone()).await,
        // Whoever waits for the end sees that a server which cannot be reached was not told.
        None => match plain::socket(config).await {
            Ok(socket) => cancel.cancel_query_raw(socket, NoTls).await,
            Err(_) => Ok(()),
        },
    }
}

/// Looks until the process is gone. One that does not heed the cancel is ended.
async fn until_gone(watching: &Client, pid: i32) -> bool {
    let began = tokio::time::Instant::now();
    let mut told = false;
    loop {
        let still = "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = $1";
        match watching.query_opt(still, &[&pid]).await {
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return false,
        }
        if !told && began.elapsed() >= UNTIL_TERMINATED {
            told = true;
            // Of its own role, which every role may.
            let end = "SELECT pg_catalog.pg_terminate_backend($1)";
            drop(watching.query(end, &[&pid]).await);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// A connection that was lost while a change was being committed.
pub(super) fn lost() -> OpsError {
    OpsError::new(
        ErrorKind::Lost,
        "the connection was lost while the change was being committed; look whether it took effect",
    )
}
