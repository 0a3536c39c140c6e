//! Answering and withdrawing questions. The first one decides: a state is only ever left once,
//! inside a transaction that holds the lock on the whole record.

use haft_contract::{
    SessionId, TenantId,
    host::{
        AnswerError, Approval, ApprovalId, ApprovalState, GivenAnswer, GivenVerdict, LedgerError,
        Timestamp,
    },
};

use super::{
    agent_question, no_such_question,
    row::{Columns, load, understood},
};
use crate::{
    change::{Change, ChangeContext},
    grants,
    redact::Redactor,
    store::{Lock, StoreError, values},
};

/// The longest reason that is kept.
const MAX_REASON_BYTES: usize = 4_000;

pub(super) struct AnswerQuestion {
    pub(super) tenant: TenantId,
    pub(super) id: ApprovalId,
    pub(super) given: GivenAnswer,
    pub(super) at: Timestamp,
}

impl Change for AnswerQuestion {
    type Output = Result<Approval, AnswerError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        if let GivenVerdict::Refuse {
            reason: Some(reason),
        } = &mut self.given.verdict
        {
            let mut clean = redactor.text(reason).into_owned();
            clean.truncate(clean.floor_char_boundary(MAX_REASON_BYTES));
            *reason = clean;
        }
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let now = changing.now.max(self.at);
        let found = load(
            changing.connection,
            changing.key,
            &self.tenant,
            self.id,
            now,
        )
        .await?;
        let Some((mut row, approval)) = found else {
            return Ok(Err(AnswerError::Unknown));
        };
        if let Err(error) = approval.takes(&self.given) {
            return Ok(Err(error));
        }
        let (by, at) = (self.given.by.name(), self.at);
        let state = match &self.given.verdict {
            GivenVerdict::Approve => ApprovalState::Approved { by, at },
            GivenVerdict::Refuse { reason } => ApprovalState::Refused {
                by,
                at,
                reason: reason.clone(),
            },
        };
        turn(changing, &mut row, &approval, &state).await?;
        Ok(row.approval(now).ok_or(AnswerError::Unknown))
    }
}

/// Withdraws a pending question.
pub(super) struct Withdraw {
    pub(super) tenant: TenantId,
    pub(super) id: ApprovalId,
    pub(super) at: Timestamp,
}

impl Change for Withdraw {
    type Output = Result<(), LedgerError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let now = changing.now.max(self.at);
        let found = load(
            changing.connection,
            changing.key,
            &self.tenant,
            self.id,
            now,
        )
        .await?;
        let Some((mut row, approval)) = found else {
            return Ok(Err(no_such_question()));
        };
        if approval.state == ApprovalState::Pending {
            turn(changing, &mut row, &approval, &ApprovalState::Withdrawn).await?;
        }
        Ok(Ok(()))
    }
}

/// Withdraws everything of a session that could still lead to a start.
pub(super) struct EndSession {
    pub(super) tenant: TenantId,
    pub(super) session: SessionId,
    pub(super) at: Timestamp,
}

impl Change for EndSession {
    type Output = ();

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let now = changing.now.max(self.at);
        let rows = changing
            .connection
            .query(
                "SELECT * FROM approval
             WHERE tenant = ?1 AND session = ?2 AND state IN ('pending', 'approved')",
                &values![self.tenant.as_str(), self.session.as_str()],
            )
            .await?;
        for row in &rows {
            let Some((mut row, approval)) = understood(row, changing.key, now)? else {
                agent_question::end(changing, row, now).await?;
                continue;
            };
            match approval.state {
                ApprovalState::Pending | ApprovalState::Approved { .. } => {
                    turn(changing, &mut row, &approval, &ApprovalState::Withdrawn).await?;
                }
                ApprovalState::Refused { .. }
                | ApprovalState::Lapsed
                | ApprovalState::Withdrawn
                | ApprovalState::Used { .. } => {}
            }
        }
        grants::end_session(changing, &self.tenant, &self.session).await
    }
}

/// Changes a question's state, and notes that its waiters should look.
pub(super) async fn turn(
    changing: &mut ChangeContext<'_>,
    row: &mut Columns,
    approval: &Approval,
    state: &ApprovalState,
) -> Result<(), StoreError> {
    row.turn(state);
    let from = approval.state.as_str();
    let turned = row.update(changing.connection, changing.key, from).await?;
    if !turned {
        // The transaction has held the write lock since before the row was read.
        return Err(StoreError::Unreadable("the state of a question".to_owned()));
    }
    changing.woken.push(approval.id);
    Ok(())
}
