//! One change of what is kept about questions and grants, made by the writer inside its next
//! transaction and reported once that is durable.
//!
//! A transaction may be begun anew, so a change only looks at the database and decides again. What
//! could not be committed is forgotten: whoever asked for it was told.

use std::{fmt, future::Future};

use haft_contract::{
    BoxFuture,
    host::{ApprovalId, LedgerError, Timestamp},
};
use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use crate::redact::Redactor;

/// What a change works with.
pub(crate) struct ChangeContext<'a> {
    pub(crate) connection: &'a mut SqliteConnection,
    /// Signs rows.
    pub(crate) key: &'a [u8; 32],
    /// The ledger's time.
    pub(crate) now: Timestamp,
    /// Questions whose state changed, for whoever waits.
    pub(crate) woken: &'a mut Vec<ApprovalId>,
}

/// A change and what comes of it.
pub(crate) trait Change: Send {
    /// What it reports.
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

/// A change on its way to the writer, whatever it reports.
pub(crate) trait Job: Send {
    /// Converts and redacts, before the transaction begins.
    fn prepare(&mut self, redactor: &Redactor);

    /// Makes the change, and keeps what came of it.
    fn run<'a>(
        &'a mut self,
        changing: &'a mut ChangeContext<'_>,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    /// Reports what came of it, now that it is durable.
    fn report(self: Box<Self>);

    /// Reports that it was not made.
    fn fail(self: Box<Self>, error: LedgerError);
}

/// Where the report about a change arrives.
pub(crate) type Report<T> = oneshot::Receiver<Result<T, LedgerError>>;

/// A job for the writer, and where its report arrives.
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
            // Whoever stopped waiting does not mind.
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
