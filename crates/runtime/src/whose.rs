//! Whose something is: the parts of a principal that decide what a session sees of what it left
//! behind, such as its processes and what it has just done.

use haft_contract::{AgentId, Principal, SessionId, SessionKind, TenantId, UserId};

/// One session of one user's agent. No other session finds what is kept under it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Whose {
    tenant: TenantId,
    user: UserId,
    agent: AgentId,
    session: SessionId,
    kind: SessionKind,
}

impl Whose {
    pub(crate) fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            user: principal.user.clone(),
            agent: principal.agent.clone(),
            session: principal.session.clone(),
            kind: principal.session_kind,
        }
    }
}
