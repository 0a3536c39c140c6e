//! In-memory standing approvals, following `GrantStore`.

use haft_contract::{
    BoxFuture, Principal, SessionId, TenantId, WorkspaceId,
    host::{Grant, GrantFinder, GrantId, GrantScope, GrantStore, LedgerError, Timestamp},
};

use super::{MemoryLedger, approvals::conflict};

/// The most grants kept; a test that makes more is broken.
const MAX_GRANTS: usize = 100_000;

/// Every grant that is neither revoked nor used up, oldest first.
#[derive(Clone, Default)]
pub(super) struct Grants(Vec<Grant>);

impl Grants {
    /// Whether each of these grants has a use left.
    pub(super) fn can_use(
        &self,
        ids: &[GrantId],
        principal: &Principal,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        for id in ids {
            let mut of_user = self
                .0
                .iter()
                .filter(|grant| grant.tenant == principal.tenant && grant.user == principal.user);
            let grant = of_user.find(|grant| grant.id == *id);
            if !grant.is_some_and(|grant| grant.is_alive(now)) {
                return Err(conflict("a standing approval has ended or was revoked"));
            }
        }
        Ok(())
    }

    /// Ends the grants made for a session.
    pub(super) fn end_session(&mut self, tenant: &TenantId, session: &SessionId) {
        let of_session = GrantScope::Session(session.clone());
        self.0
            .retain(|grant| grant.tenant != *tenant || grant.scope != of_session);
    }

    /// Uses each of these grants once.
    pub(super) fn use_up(&mut self, ids: &[GrantId]) {
        for grant in self.0.iter_mut().filter(|grant| ids.contains(&grant.id)) {
            grant.uses_left = grant.uses_left.map(|left| left.saturating_sub(1));
        }
        self.0.retain(|grant| grant.uses_left != Some(0));
    }
}

impl GrantStore for MemoryLedger {
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let grants = &mut self.lock().grants.0;
            assert!(grants.len() < MAX_GRANTS, "too many grants");
            if grants.iter().any(|known| known.id == grant.id) {
                return Err(conflict("there is a grant with this id already"));
            }
            grants.push(grant);
            Ok(())
        })
    }

    fn holding<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        now: Timestamp,
        _: &'a dyn GrantFinder,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut grants = state.grants.0.clone();
            grants.retain(|grant| grant.holds(principal, workspace, now));
            Ok(grants)
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut grants = state.grants.0.clone();
            grants.retain(|grant| grant.tenant == *tenant && grant.is_alive(now));
            Ok(grants)
        })
    }

    fn revoke<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: GrantId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let grants = &mut self.lock().grants.0;
            let before = grants.len();
            grants.retain(|grant| grant.tenant != *tenant || grant.id != id);
            Ok(grants.len() < before)
        })
    }
}
