//! A person allowed calls like this one from now on: their request is checked against this very
//! call before the grants are kept. Grants that do not fit are not kept, and the result says so.

use std::sync::Arc;

use haft_contract::{
    CallEvent,
    host::{Grant, GrantRequest, GrantScope, Verdict},
};

use super::{
    PlannedCall,
    decide::{holding, judge},
};

/// The most rules one answer may create.
const MAX_RULES: usize = 64;

/// Keeps the requested grants, or notes in the result why they were not kept.
pub(super) async fn keep(planned: &mut PlannedCall, wish: GrantRequest, by: &str) {
    if let Err(why) = try_keep(planned, wish, by).await {
        planned.call.notes.push(format!(
            "[approved for this call alone; the standing approval was not kept: {why}]"
        ));
    }
}

async fn try_keep(planned: &PlannedCall, wish: GrantRequest, by: &str) -> Result<(), String> {
    let call = &planned.call;
    let now = call.engine.clock.now();
    if wish.rules.is_empty() {
        return Err("it does not name a rule".to_owned());
    }
    if wish.rules.len() > MAX_RULES {
        return Err(format!("it names more than {MAX_RULES} rules"));
    }
    let own = match &wish.scope {
        GrantScope::Session(session) => *session == call.principal.session,
        GrantScope::Project(workspace) => workspace.id == *planned.plan.workspace_id(),
        GrantScope::Agent(agent) => *agent == call.principal.agent,
    };
    if !own {
        let scope = wish.scope.as_str();
        return Err(format!("its {scope} is not the caller's"));
    }
    let wished = wish.grants(&call.principal, by, now, call.id);
    if !wished.iter().all(|grant| grant.is_alive(now)) {
        return Err("it has ended already".to_owned());
    }
    fits(planned, &wished).await?;
    for grant in wished {
        let kept = call.engine.ledger.grants().add(grant.clone()).await;
        kept.map_err(|error| format!("it could not be recorded: {error}"))?;
        let grant = Arc::new(grant);
        call.recording.note(CallEvent::Granted { grant });
    }
    Ok(())
}

/// With these grants this very call must be allowed, and must need every one of them.
async fn fits(planned: &PlannedCall, wished: &[Grant]) -> Result<(), String> {
    let mut grants = holding(planned, &planned.call.rules).await;
    grants.extend_from_slice(wished);
    let decision = judge(planned, &grants).map_err(|error| error.message().to_owned())?;
    if decision.verdict != Verdict::Allow {
        return Err(format!(
            "it would still not allow this call ({})",
            decision.reason
        ));
    }
    match wished
        .iter()
        .find(|grant| !decision.grants.contains(&grant.id))
    {
        Some(idle) => Err(format!("`{}` is not needed by this call", idle.rule)),
        None => Ok(()),
    }
}
