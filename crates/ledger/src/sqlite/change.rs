//! A change to questions or grants, made by the writer inside its next transaction and reported
//! once that is durable.
//!
//! A transaction may be restarted, so a change only reads the database and decides again. A change
//! that could not be committed is dropped: its caller got the error.

use std::{fmt, future::Future};

use haft_contract::{
    BoxFuture,
    host::{ApprovalId, LedgerError, Timestamp},
};
use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use crate::redact::Redactor;

/// What a change has access to.
pub(crate) struct ChangeContext<'a> {
    pub(crate) connection: &'a mut SqliteConnection,
    /// Signs rows.
    pub(crate) key: &'a [u8; 32],
    /// The ledger's time.
    pub(crate) now: Timestamp,
    /// Questions whose state changed, to wake their waiters.
    pub(crate) woken: &'a mut Vec<ApprovalId>,
}

/// A change and its result.
pub(crate) trait Change: Send {
    /// The result.
    type Output: Send;

    /// Converts and redacts, before the transaction begins.
    fn prepare(&mut self, redactor: &Redactor) {
        let _ = redactor;
    }

    /// Makes the change.
    fn make(
        &self,
        changing: &mut ChangeContext<'_>,
    ) -> impl Future<Output = Result<Self::Output, sqlx::Error>> + Send;
}

/// A change on its way to the writer, with its result type erased.
pub(crate) trait Job: Send {
    /// Converts and redacts, before the transaction begins.
    fn prepare(&mut self, redactor: &Redactor);

    /// Makes the change, and keeps the result.
    fn run<'a>(
        &'a mut self,
        changing: &'a mut ChangeContext<'_>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// Reports the result, now that it is durable.
    fn report(self: Box<Self>);

    /// Reports that the change was not made.
    fn fail(self: Box<Self>, error: LedgerError);
}

/// Receives the result of a change.
pub(crate) type Report<T> = oneshot::Receiver<Result<T, LedgerError>>;

/// A job for the writer, and the receiver of its result.
pub(crate) fn job<C: Change + 'static>(change: C) -> (Box<dyn Job>, Report<C::Output>) {
    let (reply, report) = oneshot::channel();
    let job = PendingChange {
        change,
        made: None,
        reply,
    };
    (Box::new(job), report)
}

struct PendingChange<C: Change> {
    change: C,
    made: Option<C::Output>,
    reply: oneshot::Sender<Result<C::Output, LedgerError>>,
}

impl<C: Change> Job for PendingChange<C> {
    fn prepare(&mut self, redactor: &Redactor) {
        self.change.prepare(redactor);
    }

    fn run<'a>(
        &'a mut self,
        changing: &'a mut ChangeContext<'_>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            self.made = Some(self.change.make(changing).await?);
            Ok(())
        })
    }

    fn report(self: Box<Self>) {
        if let Some(made) = self.made {
            // An error only means that nobody waits any more.
            let _ = self.reply.send(Ok(made));
        }
    }

    fn fail(self: Box<Self>, error: LedgerError) {
        let _ = self.reply.send(Err(error));
    }
}

impl fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
