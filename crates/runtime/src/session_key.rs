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
    ancestors: Vec<AgentId>,
    session: SessionId,
    kind: SessionKind,
    narrowed_from: Option<SessionKind>,
    workspace: WorkspaceId,
}

impl SessionKey {
    pub(crate) fn of(principal: &Principal, workspace: &WorkspaceId) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            user: principal.user.clone(),
            agent: principal.agent.clone(),
            ancestors: principal.ancestors.clone(),
            session: principal.session.clone(),
            kind: principal.session_kind,
            narrowed_from: principal.narrowed_from,
            workspace: workspace.clone(),
        }
    }

    /// The tenant it belongs to.
    pub(crate) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// The workspace it is in.
    pub(crate) fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The name of the loopback that its commands share. Its parts are quoted, so that no two keys
    /// have one name.
    pub(crate) fn loopback(&self) -> SharedLoopback {
        SharedLoopback::new(format!("{self:?}"))
    }

    /// Whether it is this principal's session, in any workspace, or that of one which the principal
    /// narrowed itself to for some of its calls.
    pub(crate) fn is_session_of(&self, principal: &Principal) -> bool {
        let kind = principal.session_kind;
        self.tenant == principal.tenant
            && self.user == principal.user
            && self.session == principal.session
            && (self.kind == kind || self.narrowed_from == Some(kind))
            && self.is_in_line_of(principal)
    }

    /// Whether it is this principal's agent, or one that it started.
    fn is_in_line_of(&self, principal: &Principal) -> bool {
        let own = std::iter::once(&self.agent).chain(&self.ancestors);
        let theirs = std::iter::once(&principal.agent).chain(&principal.ancestors);
        let younger = self.ancestors.len().checked_sub(principal.ancestors.len());
        younger.is_some_and(|younger| own.skip(younger).eq(theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(line: &[&str], kind: SessionKind) -> Principal {
        let mut line = line.iter().map(|agent| AgentId::parse(agent).unwrap());
        let mut principal = Principal::local(
            UserId::parse("ada").unwrap(),
            line.next().unwrap(),
            SessionId::parse("s").unwrap(),
        );
        principal.ancestors = line.collect();
        principal.session_kind = kind;
        principal
    }

    #[test]
    fn a_session_ends_with_what_it_was_narrowed_to_and_nothing_else_does() {
        let ends = |left: &Principal, whose: &Principal| {
            SessionKey::of(left, &WorkspaceId::local()).is_session_of(whose)
        };
        let main = principal(&["main"], SessionKind::Main);
        assert!(ends(&main, &main));
        let mut direct = main.clone();
        direct.narrow_session(SessionKind::Dm);
        let mut child = principal(&["child", "main"], SessionKind::Main);
        child.narrow_session(SessionKind::Subagent);
        let grandchild = Principal {
            agent: AgentId::parse("grandchild").unwrap(),
            ancestors: ["child", "main"]
                .map(|agent| AgentId::parse(agent).unwrap())
                .into(),
            ..child.clone()
        };
        for narrowed in [&direct, &child, &grandchild] {
            assert!(ends(narrowed, &main), "{narrowed:?}");
            assert!(!ends(&main, narrowed), "{narrowed:?}");
        }
        assert!(ends(&grandchild, &child));
        for other in [
            principal(&["main"], SessionKind::Dm),
            principal(&["child"], SessionKind::Main),
            principal(&["child", "other"], SessionKind::Main),
            principal(&["main", "child"], SessionKind::Main),
        ] {
            assert!(!ends(&other, &main), "{other:?}");
        }
    }
}
