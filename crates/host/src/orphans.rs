//! Withdraws questions whose agent is gone together with the `haft mcp` that served it, so that
//! nobody else can: for example, because a whole process tree was killed.
//!
//! A question outlives its process if somebody may return to its session and make the call again.
//! Nobody returns to the session that `haft mcp` makes for one client.

use haft_contract::{
    CallId, SessionId, TenantId,
    host::{Clock as _, Ledger},
};
use haft_ledger::Recovery;
use haft_runtime::SystemClock;

/// The prefix of such a session's name.
const OF_ONE_CLIENT: &str = "mcp-";

/// The most questions that are read; there are never more waiting.
const MAX_LOOKED_AT: usize = 10_000;

/// The name of a new session for one client. It ends with the client.
pub fn session_of_one_client() -> String {
    format!("{OF_ONE_CLIENT}{}", CallId::new())
}

fn is_of_one_client(session: &SessionId) -> bool {
    let id = session.as_str().strip_prefix(OF_ONE_CLIENT);
    id.and_then(CallId::parse).is_some()
}

/// Withdraws a tenant's questions about calls that were left open and whose session nobody returns
/// to.
pub(crate) async fn withdraw(ledger: &impl Ledger, recovery: &Recovery, tenant: &TenantId) {
    if recovery.never_started.is_empty() {
        return;
    }
    let (approvals, now) = (ledger.approvals(), SystemClock.now());
    let pending = match approvals.pending(tenant, now, MAX_LOOKED_AT).await {
        Ok(pending) => pending,
        Err(error) => {
            tracing::warn!(%error, "the questions of agents that are gone lapse by themselves");
            return;
        }
    };
    for question in pending {
        let is_left = recovery.never_started.contains(&question.call)
            && is_of_one_client(&question.principal.session);
        if !is_left {
            continue;
        }
        if let Err(error) = approvals.withdraw(tenant, question.id, now).await {
            tracing::warn!(%error, id = %question.id, "a question lapses by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use haft_contract::{Principal, host::ApprovalQuestion, plan::PlanDigest};
    use haft_testkit::{MemoryLedger, principal};
    use serde_json::json;

    use super::*;

    /// Asks about a call of a session that ended with its process, and returns the call.
    async fn ask(ledger: &MemoryLedger, tenant: &TenantId, number: u8) -> CallId {
        let principal = Principal {
            tenant: tenant.clone(),
            session: SessionId::parse(&session_of_one_client()).unwrap(),
            ..principal().as_ref().clone()
        };
        let (call, asked) = (CallId::new(), SystemClock.now());
        let question = ApprovalQuestion {
            call,
            principal: Arc::new(principal),
            digest: PlanDigest([number; 32]),
            form: Arc::new(json!({})),
            summary: "cargo publish".to_owned(),
            asked,
            expires: asked.after(Duration::from_hours(1)),
            most_open: 10,
        };
        ledger.approvals().ask(question).await.unwrap();
        call
    }

    #[tokio::test]
    async fn questions_are_withdrawn_in_the_tenant_that_is_named_and_in_no_other() {
        let ledger = MemoryLedger::new();
        let tenants = ["local", "acme"].map(|tenant| TenantId::parse(tenant).unwrap());
        let [local, acme] = &tenants;
        let recovery = Recovery {
            never_started: vec![ask(&ledger, local, 1).await, ask(&ledger, acme, 2).await],
            ..Recovery::default()
        };
        withdraw(&ledger, &recovery, acme).await;
        let now = SystemClock.now();
        let open = async |tenant| ledger.approvals().pending(tenant, now, 10).await.unwrap();
        assert_eq!((open(local).await.len(), open(acme).await.len()), (1, 0));
    }

    #[test]
    fn only_a_session_that_haft_named_ends_with_its_process() {
        for (session, ends) in [
            (session_of_one_client().as_str(), true),
            ("main", false),
            ("mcp-", false),
            ("mcp-release", false),
        ] {
            let session = SessionId::parse(session).unwrap();
            assert_eq!(is_of_one_client(&session), ends, "{session}");
        }
    }
}
