//! What a start depends on: one approval, some grants, that its session has read nothing it was not
//! judged with, and, for a claimed call, that its claim still holds. Approval and grants are used
//! up, and the reads compared, in the transaction that records the start; otherwise the start is
//! not recorded.

use haft_contract::{
    CallEvent, Labels, Principal,
    event::RecordedEvent,
    host::{ApprovalId, Epoch, GrantId, LedgerError, LedgerErrorKind, Timestamp},
    label::MAX_PROVIDERS,
};

use super::{accepted, approvals, change::ChangeContext, grants, read};
use crate::{
    draft::CallDraft,
    message::{Handle, Waiter},
};

/// A start that is recorded only if everything it depends on can be used.
#[derive(Debug)]
pub(crate) struct CheckedStart {
    pub(super) handle: Handle,
    pub(super) rests_on: RestsOn,
    /// The claim that holds its call, if it was claimed.
    pub(super) claim: Option<Epoch>,
    pub(super) at: Timestamp,
    /// The provider of the call's tool, as recorded; none for built-in tools.
    pub(super) provider: Option<String>,
    /// Whether the session had not used that provider before, according to the last attempt.
    pub(super) is_new_provider: bool,
    /// The call before its start was folded in.
    pub(super) before: Box<CallDraft>,
    /// The number of the start's pending record; what follows it in the same append depends on it.
    pub(super) number: u64,
    pub(super) refusal: Refusal,
}

/// What a start depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct RestsOn {
    pub(super) approval: Option<ApprovalId>,
    pub(super) grants: Vec<GrantId>,
    pub(super) read_from: Option<Labels>,
}

impl RestsOn {
    /// Whether a person's answer is used up.
    pub(super) fn uses_up(&self) -> bool {
        self.approval.is_some() || !self.grants.is_empty()
    }
}

/// How a refused start is handled.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not recorded, and its waiter gets the error.
    NotRecorded(Option<Waiter>),
    /// It already happened: it arrived with the call's settlement, so it is recorded anyway.
    TooLate,
}

/// Whether an event is a start that depends on something.
pub(crate) fn is_checked_start(happened: &RecordedEvent) -> bool {
    match &happened.event {
        CallEvent::Started {
            approval,
            grants,
            read_from,
            ..
        } => approval.is_some() || !grants.is_empty() || read_from.is_some(),
        _ => false,
    }
}

/// What a start depends on, each grant once.
pub(super) fn rests_on(happened: &RecordedEvent) -> RestsOn {
    match &happened.event {
        CallEvent::Started {
            approval,
            grants,
            read_from,
            ..
        } => {
            let mut grants = grants.clone();
            grants.sort_unstable();
            grants.dedup();
            RestsOn {
                approval: *approval,
                grants,
                read_from: read_from.clone(),
            }
        }
        _ => RestsOn::default(),
    }
}

impl CheckedStart {
    /// Compares and uses up everything; the inner error says what cannot be used.
    pub(super) async fn use_up(
        &mut self,
        changing: &mut ChangeContext<'_>,
    ) -> Result<Result<(), LedgerError>, sqlx::Error> {
        if let Some(epoch) = self.claim {
            let tenant = &self.before.principal.tenant;
            let connection = &mut *changing.connection;
            if !accepted::holds(connection, tenant, self.before.id, epoch).await? {
                return Ok(Err(accepted::superseded_claim(epoch)));
            }
        }
        if let Err(error) = self.compare(changing).await? {
            return Ok(Err(error));
        }
        let principal: &Principal = &self.before.principal;
        let now = changing.now.max(self.at);
        for grant in &self.rests_on.grants {
            if !grants::use_up(changing, principal, *grant, now).await? {
                return Ok(Err(conflict(
                    "a standing approval has ended or was revoked",
                )));
            }
        }
        if let Some(approval) = self.rests_on.approval {
            let call = self.before.id;
            if let Err(state) = approvals::use_up(changing, principal, approval, call, now).await? {
                return Ok(Err(conflict(&format!("the approval is {state}"))));
            }
        }
        Ok(Ok(()))
    }

    /// Checks whether the session has read more than the call was judged with. Nobody else writes
    /// until this transaction ends, so the result still holds when the start is recorded.
    async fn compare(
        &mut self,
        changing: &mut ChangeContext<'_>,
    ) -> Result<Result<(), LedgerError>, sqlx::Error> {
        let Some(judged_with) = &self.rests_on.read_from else {
            return Ok(Ok(()));
        };
        let Principal {
            tenant, session, ..
        } = &*self.before.principal;
        let used =
            read::providers_used(&mut *changing.connection, tenant, session, MAX_PROVIDERS).await?;
        self.is_new_provider = self
            .provider
            .as_ref()
            .is_some_and(|provider| !used.contains(provider));
        let read_from = Labels::of_providers(&used);
        Ok(
            match read_from.iter().find(|one| !judged_with.contains(one)) {
                Some(source) => Err(LedgerError::new(
                    LedgerErrorKind::ReadMore,
                    format!("the session has read from {source} meanwhile"),
                )),
                None => Ok(()),
            },
        )
    }
}

pub(super) fn conflict(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Conflict, message)
}
