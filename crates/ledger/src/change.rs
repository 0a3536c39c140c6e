//! A change to questions or grants, made by the writer inside its next transaction and reported
//! once that is durable.
//!
//! A transaction may be restarted, so a change only reads the database and decides again. A change
//! that could not be committed is dropped: its caller got the error.

use std::{fmt, future::Future};

use haft_contract::{
    BoxFuture, TenantId, UserId,
    host::{ApprovalId, LedgerError, LedgerErrorKind, Timestamp},
};
use tokio::sync::oneshot;

use crate::{
    redact::Redactor,
    store::{Connection, Lock, Scope, StoreError},
};

/// What a change has access to.
pub(crate) struct ChangeContext<'a> {
    pub(crate) connection: &'a mut dyn Connection,
    /// Signs rows.
    pub(crate) key: &'a [u8; 32],
    /// The ledger's time.
    pub(crate) now: Timestamp,
    /// Questions whose state changed, to wake their waiters.
    pub(crate) woken: &'a mut Vec<ApprovalId>,
    /// People whose grants changed.
    pub(crate) grants_changed: &'a mut Vec<(TenantId, UserId)>,
}

/// A change and its result.
pub(crate) trait Change: Send {
    /// The result.
    type Output: Send;

    /// Whether open calls are written with it: a question on record without its call would be
    /// nobody's.
    const IS_ABOUT_CALLS: bool = true;

    /// What it holds while it is made, because another process may make the same.
    const LOCK: Option<Lock> = None;

    /// Whose it is; none if it is about everybody's.
    fn tenant(&self) -> Option<&TenantId>;

    /// Converts and redacts, before the transaction begins.
    fn prepare(&mut self, redactor: &Redactor) {
        let _ = redactor;
    }

    /// Makes the change.
    fn make(
        &self,
        changing: &mut ChangeContext<'_>,
    ) -> impl Future<Output = Result<Self::Output, StoreError>> + Send;
}

/// A change on its way to the writer, with its result type erased.
pub(crate) trait Job: Send {
    /// Converts and redacts, before the transaction begins.
    fn prepare(&mut self, redactor: &Redactor);

    /// Whether open calls are written with it.
    fn is_about_calls(&self) -> bool;

    /// What it holds while it is made.
    fn lock(&self) -> Option<Lock>;

    /// Makes the change, and keeps the result.
    fn run<'a>(
        &'a mut self,
        changing: &'a mut ChangeContext<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

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

    fn is_about_calls(&self) -> bool {
        C::IS_ABOUT_CALLS
    }

    fn lock(&self) -> Option<Lock> {
        C::LOCK
    }

    fn run<'a>(
        &'a mut self,
        changing: &'a mut ChangeContext<'_>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            match self.change.tenant() {
                Some(tenant) => {
                    let scope = [tenant.as_str()];
                    changing.connection.act_for(Scope::Tenants(&scope)).await?;
                }
                None => changing.connection.act_for(Scope::Every).await?,
            }
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

/// The error for a change that something rules out.
pub(crate) fn conflict(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Conflict, message)
}

impl fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
