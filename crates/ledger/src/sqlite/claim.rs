//! What a start rests on: one approval, some grants. They are used up in the transaction that
//! records the start, or the start is not recorded.

use haft_contract::{
    CallEvent, Principal,
    event::Happened,
    host::{ApprovalId, GrantId, LedgerError, LedgerErrorKind, Timestamp},
};

use super::{approvals, change::Changing, grants};
use crate::{
    draft::Draft,
    message::{Handle, Waiter},
};

/// A start that may be recorded only if what it names can be used.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(super) handle: Handle,
    pub(super) approval: Option<ApprovalId>,
    pub(super) grants: Vec<GrantId>,
    pub(super) at: Timestamp,
    /// The call as it was before its start was folded in.
    pub(super) before: Box<Draft>,
    /// The record of the start is this one of the pending ones; what follows it in the same append
    /// rests on it.
    pub(super) number: u64,
    pub(super) refusal: Refusal,
}

/// What becomes of a start whose claim is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not recorded, and whoever waits is told.
    NotRecorded(Option<Waiter>),
    /// It is over already: it arrived with the call's settlement, so it is recorded as it was.
    TooLate,
}

/// Whether an event is a start that rests on something.
pub(crate) fn is_claim(happened: &Happened) -> bool {
    claims(happened).is_some()
}

/// What an event claims, if it does.
pub(super) fn claims(happened: &Happened) -> Option<(Option<ApprovalId>, &[GrantId])> {
    match &happened.event {
        CallEvent::Started {
            approval, grants, ..
        } if approval.is_some() || !grants.is_empty() => Some((*approval, grants)),
        _ => None,
    }
}

impl Claim {
    /// Uses everything up; the inner error says what cannot be used.
    pub(super) async fn use_up(
        &self,
        changing: &mut Changing<'_>,
    ) -> Result<Result<(), LedgerError>, sqlx::Error> {
        let principal: &Principal = &self.before.principal;
        let now = changing.now.max(self.at);
        for grant in &self.grants {
            if !grants::use_up(changing, principal, *grant, now).await? {
                return Ok(Err(conflict(
                    "a standing approval has ended or was revoked",
                )));
            }
        }
        if let Some(approval) = self.approval {
            let call = self.before.id;
            if let Err(state) = approvals::use_up(changing, principal, approval, call, now).await? {
                return Ok(Err(conflict(&format!("the approval is {state}"))));
            }
        }
        Ok(Ok(()))
    }
}

pub(super) fn conflict(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Conflict, message)
}
