//! Questions to people and standing approvals, for now refused: what cannot be recorded is not
//! asked.

use haft_contract::{
    BoxFuture, Principal, SessionId, TenantId,
    host::{
        AnswerError, Approval, ApprovalId, ApprovalQuestion, ApprovalStore, GivenAnswer, Grant,
        GrantId, GrantStore, LedgerError, Timestamp,
    },
};

use crate::queue::unavailable;

/// Keeps nothing and says so.
pub(crate) struct NotYet;

impl ApprovalStore for NotYet {
    fn ask(&self, _: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }

    fn answered<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }

    fn answer<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: GivenAnswer,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet").into()) })
    }

    fn withdraw<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }

    fn end_session<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SessionId,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        _: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }

    fn pending<'a>(
        &'a self,
        _: &'a TenantId,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
    }
}

impl GrantStore for NotYet {
    fn add(&self, _: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async { Err(unavailable("questions are not kept yet")) })
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
