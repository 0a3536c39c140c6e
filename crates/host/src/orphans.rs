//! Withdraws questions whose agent is gone together with the `haft mcp` that served it, so that
//! nobody else can: for example, because a whole process tree was killed.
//!
//! A question outlives its process if somebody may return to its session and make the call again.
//! Nobody returns to the session that `haft mcp` makes for one client.

use haft_contract::{
    CallId, SessionId, TenantId,
    host::{Clock as _, Ledger as _},
};
use haft_ledger::{Recovery, SqliteLedger};
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

/// Withdraws the questions of calls that were left open and whose session nobody returns to.
pub async fn withdraw(ledger: &SqliteLedger, recovery: &Recovery) {
    let tenant = TenantId::local();
    if recovery.never_started.is_empty() {
        return;
    }
    let (approvals, now) = (ledger.approvals(), SystemClock.now());
    let pending = match approvals.pending(&tenant, now, MAX_LOOKED_AT).await {
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
        if let Err(error) = approvals.withdraw(&tenant, question.id, now).await {
            tracing::warn!(%error, id = %question.id, "a question lapses by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
