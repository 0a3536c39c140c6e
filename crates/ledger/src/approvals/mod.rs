//! Questions to people. Every change goes through the writer, inside a transaction that
//! locks out every other process; everything else only reads.
//!
//! An agent's own questions are rows of another kind (`agent_question.rs`), which nothing here reads as
//! an approval. `row.rs` is the stored form and its signature, `ask.rs` and `answer.rs` the changes, and
//! `waiting.rs` is how a call waits for an answer that may come from another process.

mod agent_question;
mod answer;
mod ask;
pub(crate) mod row;
pub(crate) mod waiting;

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, Principal, SessionId, TenantId,
    host::{
        AnswerError, Approval, ApprovalId, ApprovalQuestion, ApprovalState, ApprovalStore, Clock,
        GivenAnswer, LedgerError, LedgerErrorKind, Timestamp,
    },
};
use tokio::sync::Semaphore;

use self::{
    answer::{AnswerQuestion, EndSession, Withdraw, turn},
    ask::AskQuestion,
    row::{load, understood},
    waiting::AnswerWaiters,
};
use crate::{
    change::ChangeContext,
    queue::Queue,
    reading::{failed, row_limit},
    store::{Scope, Store, StoreError, values},
};

pub(crate) struct Approvals {
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: [u8; 32],
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) waiting: Arc<AnswerWaiters>,
    /// Waiters take turns to look, so that thousands that begin at once do not all hold what a look
    /// needs.
    pub(crate) looks: Semaphore,
}

/// How many waiters may look at once.
pub(crate) const LOOKS: usize = 4;

impl Approvals {
    async fn load(
        &self,
        tenant: &TenantId,
        id: ApprovalId,
    ) -> Result<Option<Approval>, LedgerError> {
        let scope = [tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope));
        let mut connection = reader.await.map_err(failed)?;
        let now = self.clock.now();
        let found = load(&mut *connection, &self.key, tenant, id, now).await;
        Ok(found.map_err(failed)?.map(|(_, approval)| approval))
    }
}

impl Approvals {
    /// One look by a waiter. Boxed while it reads, so that waiting takes little memory.
    async fn look(&self, tenant: &TenantId, id: ApprovalId) -> Result<Approval, LedgerError> {
        let _turn = self.looks.acquire().await;
        let found = Box::pin(self.load(tenant, id)).await?;
        found.ok_or_else(no_such_question)
    }
}

impl ApprovalStore for Approvals {
    fn ask(&self, question: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>> {
        Box::pin(async move { self.queue.change(AskQuestion::new(question)).await? })
    }

    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>> {
        Box::pin(async move {
            loop {
                let first = self.look(tenant, id).await?;
                if first.state != ApprovalState::Pending {
                    return Ok(first);
                }
                let waiter = self.waiting.wait_for(id, first.expires)?;
                // Listens before looking again, so that an answer in between is not missed.
                let mut changed = std::pin::pin!(waiter.changed());
                changed.as_mut().enable();
                drop(first);
                let second = self.look(tenant, id).await?;
                if second.state != ApprovalState::Pending {
                    return Ok(second);
                }
                drop(second);
                changed.await;
            }
        })
    }

    fn answer<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        answer: GivenAnswer,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>> {
        Box::pin(async move {
            let answer = AnswerQuestion {
                tenant: tenant.clone(),
                id,
                given: answer,
                at,
            };
            self.queue.change(answer).await?
        })
    }

    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let tenant = tenant.clone();
            self.queue.change(Withdraw { tenant, id, at }).await?
        })
    }

    fn end_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let ending = EndSession {
                tenant: tenant.clone(),
                session: session.clone(),
                at,
            };
            self.queue.change(ending).await
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>> {
        Box::pin(self.load(tenant, id))
    }

    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>> {
        Box::pin(async move {
            let scope = [tenant.as_str()];
            let reader = self.store.reader(Scope::Tenants(&scope));
            let mut reader = reader.await.map_err(failed)?;
            let rows = reader
                .query(
                    "SELECT * FROM approval WHERE tenant = ?1 AND state = 'pending'
                     AND kind = 'approval' AND expires_at > ?2 ORDER BY asked_at, id LIMIT ?3",
                    &values![tenant.as_str(), now.0, row_limit(limit)],
                )
                .await
                .map_err(failed)?;
            let mut pending = Vec::with_capacity(rows.len());
            for row in &rows {
                let found = understood(row, &self.key, now).map_err(failed)?;
                pending.extend(found.map(|(_, approval)| approval));
            }
            Ok(pending)
        })
    }
}

/// Uses an approval up for this principal's call; the inner error is its actual state.
pub(crate) async fn use_up(
    changing: &mut ChangeContext<'_>,
    principal: &Principal,
    id: ApprovalId,
    call: CallId,
    now: Timestamp,
) -> Result<Result<(), &'static str>, StoreError> {
    let tenant = &principal.tenant;
    let found = load(changing.connection, changing.key, tenant, id, now).await?;
    let Some((mut row, approval)) = found else {
        return Ok(Err("not there"));
    };
    if !asks_for(&approval.principal, principal) {
        return Ok(Err("somebody else's"));
    }
    let ApprovalState::Approved { .. } = approval.state else {
        return Ok(Err(approval.state.as_str()));
    };
    // Even if an older copy of the row was restored, the start is still on record.
    let used_before: Option<i64> = changing
        .connection
        .scalar(
            "SELECT 1 FROM approval_used WHERE tenant = ?1 AND approval = ?2",
            &values![tenant.as_str(), &id.to_string()],
        )
        .await?;
    if used_before.is_some() {
        return Ok(Err("used"));
    }
    turn(
        changing,
        &mut row,
        &approval,
        &ApprovalState::Used { by: call },
    )
    .await?;
    Ok(Ok(()))
}

/// Whether an approval treats two principals as the same.
fn asks_for(one: &Principal, other: &Principal) -> bool {
    (&one.tenant, &one.user, &one.agent, &one.session)
        == (&other.tenant, &other.user, &other.agent, &other.session)
}

fn no_such_question() -> LedgerError {
    LedgerError::new(LedgerErrorKind::NotFound, "there is no such question")
}
