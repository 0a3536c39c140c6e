//! Withdraws questions whose call was settled because its process is gone, so that nobody answers a
//! question that nobody waits for: for example, because a whole process tree was killed. Whoever makes the
//! call again is asked again.
//!
//! A question that another call waits for, made in the same session by a process that lives, stays.

use haft_contract::{
    CallId, TenantId,
    host::{
        Approval, CallOutcome, CallQuery, Clock as _, History, Ledger, LedgerError, StoredEvent,
    },
};
use haft_ledger::Recovery;
use haft_runtime::SystemClock;
use serde_json::Value;

/// The prefix of such a session's name.
const OF_ONE_CLIENT: &str = "mcp-";

/// The most questions that are read; there are never more waiting.
const MAX_LOOKED_AT: usize = 10_000;

/// The name of a new session for one client. It ends with the client.
pub fn session_of_one_client() -> String {
    format!("{OF_ONE_CLIENT}{}", CallId::new())
}

/// Withdraws a tenant's questions about calls that were left open, and those that such calls asked.
pub(crate) async fn withdraw(
    ledger: &(impl Ledger + History),
    recovery: &Recovery,
    tenant: &TenantId,
) {
    withdraw_agents_questions(ledger, recovery, tenant).await;
    if recovery.never_started.is_empty() {
        return;
    }
    let (approvals, now) = (ledger.approvals(), SystemClock.now());
    let pending = match approvals.pending(tenant, now, MAX_LOOKED_AT).await {
        Ok(pending) => pending,
        Err(error) => {
            tracing::warn!(%error, "the questions of processes that are gone lapse by themselves");
            return;
        }
    };
    for question in pending {
        if !recovery.never_started.contains(&question.call) {
            continue;
        }
        let withdrawn = match is_waited_for(ledger, tenant, &question).await {
            Ok(true) => Ok(()),
            Ok(false) => approvals.withdraw(tenant, question.id, now).await,
            Err(error) => Err(error),
        };
        if let Err(error) = withdrawn {
            tracing::warn!(%error, id = %question.id, "a question lapses by itself");
        }
    }
}

/// The same for what agents ask. Their calls were started, and only read.
async fn withdraw_agents_questions(
    ledger: &(impl Ledger + History),
    recovery: &Recovery,
    tenant: &TenantId,
) {
    let is_left = |call: CallId| {
        recovery.settled_unknown.contains(&call) || recovery.never_started.contains(&call)
    };
    if recovery.settled_unknown.is_empty() && recovery.never_started.is_empty() {
        return;
    }
    let (questions, now) = (ledger.agent_questions(), SystemClock.now());
    let pending = questions.pending(tenant, now, MAX_LOOKED_AT).await;
    for asked in pending.unwrap_or_default() {
        if !is_left(asked.call) {
            continue;
        }
        // No event says which call waits for which question, so that of a session that still works stays.
        let open = CallQuery {
            session: Some(asked.principal.session.clone()),
            outcome: Some(CallOutcome::Open),
            limit: 1,
            ..CallQuery::default()
        };
        let withdrawn = match ledger.calls(tenant, &open).await {
            Ok(open) if open.is_empty() => questions.withdraw(tenant, asked.id, now).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = withdrawn {
            tracing::warn!(%error, id = %asked.id, "a question lapses by itself");
        }
    }
}

/// Whether an open call of the same session asked the same question.
async fn is_waited_for(
    history: &impl History,
    tenant: &TenantId,
    question: &Approval,
) -> Result<bool, LedgerError> {
    let query = CallQuery {
        session: Some(question.principal.session.clone()),
        outcome: Some(CallOutcome::Open),
        limit: MAX_LOOKED_AT,
        ..CallQuery::default()
    };
    let id = question.id.to_string();
    for call in history.calls(tenant, &query).await? {
        let events = history.events(tenant, call.id).await?;
        let asks = |event: &StoredEvent| {
            event.kind == "approval_asked"
                && event.body.get("id").and_then(Value::as_str) == Some(id.as_str())
        };
        if events.iter().any(asks) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use haft_contract::{
        CallEvent, CallRequest, Facts, Outcome, Principal, SessionId, Terminal,
        event::RecordedEvent,
        host::{ApprovalQuestion, Durability},
        plan::PlanDigest,
    };
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

    /// The question of a process that is gone is somebody else's too while a call waits for it.
    #[tokio::test]
    async fn a_question_that_another_call_waits_for_stays() {
        let ledger = MemoryLedger::new();
        let tenant = TenantId::local();
        let call = ask(&ledger, &tenant, 1).await;
        let now = SystemClock.now();
        let pending = ledger.approvals().pending(&tenant, now, 10).await.unwrap();
        let asked = &pending[0];
        let request = CallRequest::new("write", json!({}), Arc::clone(&asked.principal));
        let record = ledger.open(&request, now).await.unwrap();
        let event = CallEvent::ApprovalAsked {
            id: asked.id,
            digest: asked.digest,
            expires: asked.expires,
        };
        let events = vec![RecordedEvent {
            call: request.id,
            at: now,
            event,
        }];
        record.append(events, Durability::Durable).await.unwrap();
        let recovery = Recovery {
            never_started: vec![call],
            ..Recovery::default()
        };
        for (waits, open) in [(true, 1), (false, 0)] {
            if !waits {
                let outcome = Outcome {
                    call: request.id,
                    tool: None,
                    terminal: Terminal::Cancelled,
                    content: Vec::new(),
                    structured: None,
                    error: None,
                    facts: Facts::default(),
                };
                record.settle(vec![RecordedEvent {
                    call: request.id,
                    at: now,
                    event: CallEvent::Settled {
                        outcome: Arc::new(outcome),
                    },
                }]);
            }
            withdraw(&ledger, &recovery, &tenant).await;
            let pending = ledger.approvals().pending(&tenant, now, 10).await.unwrap();
            assert_eq!(pending.len(), open);
        }
    }
}
