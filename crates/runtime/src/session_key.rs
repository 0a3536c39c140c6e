//! Whose state something is: the parts of a principal that decide which session sees what was left
//! behind, such as its processes and its recent calls.

use haft_contract::{
    AgentId, Principal, SessionId, SessionKind, TenantId, UserId, WorkspaceId, ops::SharedLoopback,
};

/// One session of one user's agent in one workspace. No other session sees what is stored under it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    tenant: TenantId,
    user: UserId,
    agent: AgentId,
    session: SessionId,
    kind: SessionKind,
    workspace: WorkspaceId,
}

impl SessionKey {
    pub(crate) fn of(principal: &Principal, workspace: &WorkspaceId) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            user: principal.user.clone(),
            agent: principal.agent.clone(),
            session: principal.session.clone(),
            kind: principal.session_kind,
            workspace: workspace.clone(),
        }
    }

    /// The tenant it belongs to.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The name of the loopback that its commands share. Its parts are quoted, so that no two keys
    /// have one name.
    pub(crate) fn loopback(&self) -> SharedLoopback {
        SharedLoopback::new(format!("{self:?}"))
    }

    /// Whether it is this principal's session, in any workspace.
    pub(crate) fn is_session_of(&self, principal: &Principal) -> bool {
        self.tenant == principal.tenant
            && self.user == principal.user
            && self.agent == principal.agent
            && self.session == principal.session
            && self.kind == principal.session_kind
    }
}
