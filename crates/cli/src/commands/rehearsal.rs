//! Plans a call without running it, for `haft policy check`: the same pipeline up to the decision,
//! stopped by a hook before anything is decided, on a record that keeps nothing because nothing
//! happens.

use std::sync::{Arc, Mutex, PoisonError};

use haft_contract::{
    BoxFuture, CallId, CallRequest, Outcome, Principal, SealedPlan, SessionId, TenantId, WorkPath,
    event::Happened,
    host::{
        AnswerError, Approval, ApprovalId, ApprovalQuestion, ApprovalStore, ArtifactId,
        ArtifactStore, BeforeDecide, CallRecord, Durability, GivenAnswer, Grant, GrantId,
        GrantStore, History, Hook, Ledger, LedgerError, LedgerErrorKind, ReadArtifact, Timestamp,
        WriteArtifact,
    },
    ops::FileVersion,
};
use haft_host::host::{Parts, Wired};

use crate::stop::Stop;

/// A call that was planned and went no further.
pub(crate) struct Rehearsed {
    /// The runtime it was planned with.
    pub(crate) wired: Wired,
    /// Its plan, or how it ended before it had one.
    pub(crate) planned: Result<SealedPlan, Arc<Outcome>>,
}

/// Plans a call.
pub(crate) async fn rehearse(
    parts: Parts,
    request: impl FnOnce(&Wired) -> Result<CallRequest, Stop>,
) -> Result<Rehearsed, Stop> {
    let stopper = Arc::new(StopBeforeDeciding::default());
    let hook = Arc::clone(&stopper);
    let wired = parts
        .with(|builder| builder.hook(hook))
        .build(Arc::new(NoRecord))?;
    wired.mount_to_look()?;
    let request = request(&wired)?;
    let outcome = wired.runtime.call(request).await;
    let planned = stopper
        .plan
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
        .ok_or(outcome);
    Ok(Rehearsed { wired, planned })
}

/// Keeps the plan and ends the call.
#[derive(Default)]
struct StopBeforeDeciding {
    plan: Mutex<Option<SealedPlan>>,
}

impl Hook for StopBeforeDeciding {
    fn before_decide<'a>(
        &'a self,
        _: &'a Principal,
        plan: &'a SealedPlan,
    ) -> BoxFuture<'a, BeforeDecide> {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan.clone());
        Box::pin(async { BeforeDecide::Deny("only planned, not run".to_owned()) })
    }
}

/// The record of a program that runs nothing.
pub(crate) struct NoRecord;

impl Ledger for NoRecord {
    fn open<'a>(
        &'a self,
        _: &'a CallRequest,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Box<dyn CallRecord>, LedgerError>> {
        Box::pin(async { Ok(Box::new(NoRecord) as Box<dyn CallRecord>) })
    }

    fn artifacts(&self) -> Arc<dyn ArtifactStore> {
        Arc::new(Self)
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        Arc::new(Self)
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        Arc::new(Self)
    }

    fn history(&self) -> Option<Arc<dyn History>> {
        None
    }

    fn last_seen<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, LedgerError>> {
        Box::pin(async { Ok(None) })
    }

    fn note_seen(&self, _: &Principal, _: &WorkPath, _: &FileVersion) {}

    fn spilled<'a>(
        &'a self,
        _: &'a Principal,
        _: CallId,
    ) -> BoxFuture<'a, Result<Option<ArtifactId>, LedgerError>> {
        Box::pin(async { Ok(None) })
    }

    fn used<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn used_mark(&self, _: &TenantId, _: &SessionId) -> Option<u64> {
        Some(0)
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

impl CallRecord for NoRecord {
    /// Everything up to the plan may be noted; a start is refused, so nothing can run on this.
    fn append(
        &self,
        _: Vec<Happened>,
        durability: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            match durability {
                Durability::Queued => Ok(()),
                Durability::Durable => Err(nothing_is_kept()),
            }
        })
    }

    fn settle(&self, _: Vec<Happened>) {}

    fn settled(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Ok(()) })
    }
}

impl ArtifactStore for NoRecord {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn open(&self, _: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

/// Nobody is asked in a rehearsal.
impl ApprovalStore for NoRecord {
    fn ask(&self, _: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn answered<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn answer<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: GivenAnswer,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>> {
        Box::pin(async { Err(nothing_is_kept().into()) })
    }

    fn withdraw<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn end_session<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn pending<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }
}

/// A rehearsal knows no standing approvals, so it shows what the rules alone say.
impl GrantStore for NoRecord {
    fn add(&self, _: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Err(nothing_is_kept()) })
    }

    fn holding<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a str,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn list<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn revoke<'a>(
        &'a self,
        _: &'a TenantId,
        _: GrantId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async { Ok(false) })
    }
}

fn nothing_is_kept() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "nothing is recorded in a rehearsal",
    )
}
