//! The questions that calls of this process wait on, and which call asks the local approver.
//!
//! Identical calls share one question. One of them at a time asks the approver; the others wait for
//! the record. The question is withdrawn only when the last of them leaves without an answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    TenantId,
    host::{Approval, ApprovalId, ApprovalQuestion, ApprovalStore, LedgerError, LedgerErrorKind},
};

use crate::engine::Engine;

/// Every question a call of this process waits on.
#[derive(Default)]
pub(crate) struct PendingQuestions(Mutex<HashMap<ApprovalId, QuestionWaiters>>);

struct QuestionWaiters {
    calls: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl PendingQuestions {
    fn waiting(&self) -> MutexGuard<'_, HashMap<ApprovalId, QuestionWaiters>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many questions are waited on.
    pub(crate) fn open(&self) -> usize {
        self.waiting().len()
    }
}

/// One call's share in a question. Dropping the last one while it waits withdraws the question.
pub(crate) struct QuestionGuard {
    engine: Arc<Engine>,
    tenant: TenantId,
    id: ApprovalId,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Whether this call still waits on it.
    joined: bool,
}

impl QuestionGuard {
    /// Records a question, or finds one that asks the same, and joins the calls that wait on it.
    ///
    /// Runs in a separate task: a call that is dropped while the store writes its question would
    /// otherwise leave it open with nobody to withdraw it.
    pub(crate) async fn ask(
        engine: &Arc<Engine>,
        question: ApprovalQuestion,
    ) -> Result<(Approval, Self), LedgerError> {
        let engine = Arc::clone(engine);
        let asking = tokio::spawn(async move {
            let tenant = question.principal.tenant.clone();
            let found = engine.ledger.approvals().ask(question).await?;
            let waits = Self::on(&engine, &tenant, found.id);
            Ok((found, waits))
        });
        asking.await.unwrap_or_else(|_| {
            let message = "the question was lost on its way to the record";
            Err(LedgerError::new(LedgerErrorKind::Unavailable, message))
        })
    }

    /// Joins the calls that wait on a question.
    fn on(engine: &Arc<Engine>, tenant: &TenantId, id: ApprovalId) -> Self {
        let mut waiting = engine.asking.waiting();
        let those = waiting.entry(id).or_insert_with(|| QuestionWaiters {
            calls: 0,
            turn: Arc::default(),
        });
        those.calls += 1;
        let turn = Arc::clone(&those.turn);
        drop(waiting);
        Self {
            engine: Arc::clone(engine),
            tenant: tenant.clone(),
            id,
            turn,
            joined: true,
        }
    }

    /// Held by the call that asks the local approver.
    pub(crate) fn turn(&self) -> &tokio::sync::Mutex<()> {
        &self.turn
    }

    /// Notes that the question has its answer.
    pub(crate) fn answered(mut self) {
        self.leave();
    }

    /// Leaves without an answer; withdraws the question if no other call waits on it.
    pub(crate) async fn give_up(mut self) {
        if self.leave() {
            withdraw(
                &*self.engine.ledger.approvals(),
                &self.engine,
                &self.tenant,
                self.id,
            )
            .await;
        }
    }

    /// Leaves the question. Returns whether this was the last call.
    fn leave(&mut self) -> bool {
        if !std::mem::replace(&mut self.joined, false) {
            return false;
        }
        let mut waiting = self.engine.asking.waiting();
        let Some(those) = waiting.get_mut(&self.id) else {
            return false;
        };
        those.calls -= 1;
        if those.calls > 0 {
            return false;
        }
        waiting.remove(&self.id);
        true
    }
}

impl Drop for QuestionGuard {
    fn drop(&mut self) {
        if !self.leave() {
            return;
        }
        // Nobody waits for it any more; without an async runtime to withdraw it, the question
        // lapses by itself.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            let (engine, tenant, id) = (Arc::clone(&self.engine), self.tenant.clone(), self.id);
            handle.spawn(async move {
                withdraw(&*engine.ledger.approvals(), &engine, &tenant, id).await;
            });
        }
    }
}

async fn withdraw(
    approvals: &dyn ApprovalStore,
    engine: &Engine,
    tenant: &TenantId,
    id: ApprovalId,
) {
    if let Err(error) = approvals.withdraw(tenant, id, engine.clock.now()).await {
        tracing::warn!(%error, %id, "a question could not be withdrawn; it will lapse by itself");
    }
}
