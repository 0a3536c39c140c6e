//! Principals for tests.

use std::sync::Arc;

use haft_contract::{AgentId, Principal, SessionId, TenantId, UserId};

/// The usual principal of a test: tenant `local`, user `tester`, agent `agent`, main session
/// `session`.
pub fn principal() -> Arc<Principal> {
    in_session("session")
}

/// The usual principal in another session.
pub fn in_session(session: &str) -> Arc<Principal> {
    Arc::new(local(session))
}

/// The usual principal in another tenant.
pub fn in_tenant(tenant: &str) -> Arc<Principal> {
    Arc::new(Principal {
        tenant: TenantId::parse(tenant).expect("an identifier"),
        ..local("session")
    })
}

fn local(session: &str) -> Principal {
    Principal::local(
        UserId::parse("tester").expect("an identifier"),
        AgentId::parse("agent").expect("an identifier"),
        SessionId::parse(session).expect("an identifier"),
    )
}
