//! A call that one process accepts and another runs. When one process does both, [`Runtime::call`]
//! is the same path without the hand-over.

use std::sync::Arc;

use haft_contract::{
    CallId, CallRequest, Outcome, TenantId,
    host::{Acceptance, Epoch, LedgerError, LedgerErrorKind},
};
use tokio_util::sync::CancellationToken;

use crate::runtime::Runtime;

impl Runtime {
    /// Accepts a call to be resumed later, in this process or another that shares the record.
    /// Returns once that would survive a power cut; nothing is planned, decided or run. Repeating
    /// the same request under the same id changes nothing.
    pub async fn accept(&self, mut request: CallRequest) -> Result<Acceptance, LedgerError> {
        let engine = &self.engine;
        // Only the process that runs the call opens its workspace; one already open here is
        // recorded by its id.
        let workspaces = &engine.workspaces;
        if let Some(open) = workspaces.opened(&request.principal, &request.workspace) {
            request.workspace = open.id().clone();
        }
        let accepted = engine.ledger.accept(&request, engine.clock.now());
        let accepted = tokio::time::timeout(engine.limits.settle_wait, accepted).await;
        accepted.unwrap_or_else(|_| Err(unavailable("the call was not accepted in time")))
    }

    /// Claims an accepted call in this epoch and runs it to its end, or until the token is
    /// cancelled. It goes through the same stages as every call, under the current rules, files and
    /// people.
    ///
    /// An error means that this process did not run the call to its outcome: it was never accepted,
    /// it is over, or an equal or newer claim holds it. If a newer claim appeared while it ran,
    /// what it did is kept as evidence and is not the outcome.
    pub async fn resume(
        &self,
        tenant: &TenantId,
        call: CallId,
        epoch: Epoch,
        cancel: CancellationToken,
    ) -> Result<Arc<Outcome>, LedgerError> {
        let (engine, cancel) = (&self.engine, cancel.child_token());
        let place = engine.in_flight.take(call, tenant, &cancel, &engine.limits);
        // Before the claim: a call this process has no room for is left to others. Dropping this
        // future stops whatever the call has started.
        let place = place.map_err(|refusal| {
            let message = refusal.halt().into_error().message().to_owned();
            LedgerError::new(LedgerErrorKind::LimitExceeded, message)
        })?;
        let claimed = engine.ledger.claim(tenant, call, epoch, engine.clock.now());
        // If cancelled midway, it may have been claimed already; the next epoch supersedes that
        // claim.
        let claimed = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(unavailable("the claim was cancelled")),
            claimed = tokio::time::timeout(engine.limits.settle_wait, claimed) => {
                claimed.unwrap_or_else(|_| Err(unavailable("the call was not claimed in time")))?
            }
        };
        let mut request = claimed.request;
        let stage = place.describe(&request, engine.clock.now());
        let workspace = self.workspace_of(&mut request, &cancel).await;
        let recording = self.recording(&request, claimed.record, stage);
        let outcome = self.walk(request, workspace, &recording, cancel).await;
        let settled = tokio::time::timeout(engine.limits.settle_wait, recording.settled());
        match settled.await {
            Ok(settled) => settled.map(|()| outcome),
            Err(_) => Err(unavailable(
                "the settlement of the call was not recorded in time",
            )),
        }
    }
}

fn unavailable(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Unavailable, message)
}
