//! The questions that calls of this process wait on, and which call asks the local approver: those about
//! plans, and those that agents ask.
//!
//! Identical calls share one question. One of them at a time asks the approver; the others wait for
//! the record. The question is withdrawn only when the last of them leaves without an answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    TenantId,
    host::{
        AgentQuestionId, Approval, ApprovalId, ApprovalQuestion, AskedQuestion, LedgerError,
        LedgerErrorKind, NewAgentQuestion,
    },
};

use crate::engine::Engine;

/// Every question a call of this process waits on.
#[derive(Default)]
pub(crate) struct PendingQuestions(Mutex<HashMap<QuestionId, QuestionWaiters>>);

/// A question of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum QuestionId {
    Approval(ApprovalId),
    Agent(AgentQuestionId),
}

struct QuestionWaiters {
    calls: usize,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl PendingQuestions {
    fn waiting(&self) -> MutexGuard<'_, HashMap<QuestionId, QuestionWaiters>> {
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
    id: QuestionId,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Whether this call still waits on it.
    joined: bool,
}

impl QuestionGuard {
    /// Records a question, or finds one that asks the same, and joins the calls that wait on it.
    pub(crate) async fn ask(
        engine: &Arc<Engine>,
        question: ApprovalQuestion,
    ) -> Result<(Approval, Self), LedgerError> {
        let engine = Arc::clone(engine);
        not_dropped(async move {
            let tenant = question.principal.tenant.clone();
            let found = engine.ledger.approvals().ask(question).await?;
            let waits = Self::on(&engine, &tenant, QuestionId::Approval(found.id));
            Ok((found, waits))
        })
        .await
    }

    /// The same for a question that an agent asks.
    pub(crate) async fn ask_for_agent(
        engine: &Arc<Engine>,
        question: NewAgentQuestion,
    ) -> Result<(AskedQuestion, Self), LedgerError> {
        let engine = Arc::clone(engine);
        not_dropped(async move {
            let tenant = question.principal.tenant.clone();
            let found = engine.ledger.agent_questions().ask(question).await?;
            let waits = Self::on(&engine, &tenant, QuestionId::Agent(found.id));
            Ok((found, waits))
        })
        .await
    }

    /// Joins the calls that wait on a question.
    fn on(engine: &Arc<Engine>, tenant: &TenantId, id: QuestionId) -> Self {
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
            withdraw(&self.engine, &self.tenant, self.id).await;
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
                withdraw(&engine, &tenant, id).await;
            });
        }
    }
}

/// Asks in a separate task: a call that is dropped while the store writes its question would otherwise
/// leave it open with nobody to withdraw it.
async fn not_dropped<T: Send + 'static>(
    asking: impl Future<Output = Result<T, LedgerError>> + Send + 'static,
) -> Result<T, LedgerError> {
    tokio::spawn(asking).await.unwrap_or_else(|_| {
        let message = "the question was lost on its way to the record";
        Err(LedgerError::new(LedgerErrorKind::Unavailable, message))
    })
}

async fn withdraw(engine: &Engine, tenant: &TenantId, id: QuestionId) {
    let (ledger, now) = (&engine.ledger, engine.clock.now());
    let withdrawn = match id {
        QuestionId::Approval(id) => ledger.approvals().withdraw(tenant, id, now).await,
        QuestionId::Agent(id) => ledger.agent_questions().withdraw(tenant, id, now).await,
    };
    if let Err(error) = withdrawn {
        tracing::warn!(%error, ?id, "a question could not be withdrawn; it will lapse by itself");
    }
}
