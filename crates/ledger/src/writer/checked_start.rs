//! What a start depends on: one approval, some grants, that its session has read nothing it was not
//! judged with, and, for a claimed call, that its claim still holds. Approval and grants are used
//! up, and the reads compared, in the transaction that records the start; otherwise the start is
//! not recorded.

use std::sync::Arc;

use haft_contract::{
    CallEvent, CallId, Labels, Principal,
    event::RecordedEvent,
    host::{ApprovalId, Epoch, GrantId, LedgerError, LedgerErrorKind, Timestamp},
    label::MAX_PROVIDERS,
};

use crate::{
    accepted, approvals,
    change::{ChangeContext, conflict},
    grants,
    message::{Handle, Waiter},
    open_call::CallState,
    providers,
    store::{Scope, StoreError},
};

/// A start that is recorded only if everything it depends on can be used.
#[derive(Debug)]
pub(crate) struct CheckedStart {
    pub(crate) handle: Handle,
    pub(crate) call: CallId,
    pub(crate) principal: Arc<Principal>,
    pub(crate) rests_on: RestsOn,
    /// The claim that holds its call, if it was claimed.
    pub(crate) claim: Option<Epoch>,
    pub(crate) at: Timestamp,
    /// The provider of the call's tool, as recorded; none for built-in tools.
    pub(crate) provider: Option<String>,
    /// Whether the session had not used that provider before, according to the last attempt.
    pub(crate) is_new_provider: bool,
    /// The call before its start was folded in.
    pub(crate) before: CallState,
    /// Where the start, and what follows it in the same append, is in the call's events.
    pub(crate) range: (usize, usize),
    /// Counts starts, to tell them apart.
    pub(crate) number: u64,
    pub(crate) refusal: Refusal,
}

/// What a start depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct RestsOn {
    pub(crate) approval: Option<ApprovalId>,
    pub(crate) grants: Vec<GrantId>,
    pub(crate) read_from: Option<Labels>,
}

impl RestsOn {
    /// Whether a person's answer is used up.
    pub(crate) fn uses_up(&self) -> bool {
        self.approval.is_some() || !self.grants.is_empty()
    }
}

/// How a refused start is handled.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It is not recorded, and its waiter gets the error.
    NotRecorded(Option<Waiter>),
    /// It already happened: it arrived with the call's settlement, so it is recorded anyway.
    TooLate,
}

/// What a start depends on, each grant once.
pub(crate) fn rests_on(happened: &RecordedEvent) -> RestsOn {
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
    pub(crate) async fn use_up(
        &mut self,
        changing: &mut ChangeContext<'_>,
    ) -> Result<Result<(), LedgerError>, StoreError> {
        let scope = [self.principal.tenant.as_str()];
        changing.connection.act_for(Scope::Tenants(&scope)).await?;
        if let Some(epoch) = self.claim {
            let tenant = &self.principal.tenant;
            let connection = &mut *changing.connection;
            if !accepted::still_holds(connection, tenant, self.call, epoch).await? {
                return Ok(Err(accepted::superseded_claim(epoch)));
            }
        }
        if let Err(error) = self.compare(changing).await? {
            return Ok(Err(error));
        }
        let principal: &Principal = &self.principal;
        let now = changing.now.max(self.at);
        for grant in &self.rests_on.grants {
            if !grants::use_up(changing, principal, *grant, now).await? {
                return Ok(Err(conflict(
                    "a standing approval has ended or was revoked",
                )));
            }
        }
        if let Some(approval) = self.rests_on.approval {
            let call = self.call;
            if let Err(state) = approvals::use_up(changing, principal, approval, call, now).await? {
                return Ok(Err(conflict(&format!("the approval is {state}"))));
            }
        }
        Ok(Ok(()))
    }

    /// Checks whether the session has read more than the call was judged with. What another process
    /// records at the same moment has not run yet, so this call was not asked for because of it.
    async fn compare(
        &mut self,
        changing: &mut ChangeContext<'_>,
    ) -> Result<Result<(), LedgerError>, StoreError> {
        let Some(judged_with) = &self.rests_on.read_from else {
            return Ok(Ok(()));
        };
        let Principal {
            tenant, session, ..
        } = &*self.principal;
        let used =
            providers::providers_used(&mut *changing.connection, tenant, session, MAX_PROVIDERS)
                .await?;
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
