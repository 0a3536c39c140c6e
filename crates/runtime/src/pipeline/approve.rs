//! Asking a person, when policy says so. The clock of the call does not run meanwhile.
//!
//! The answer binds the digest of the plan and the versions of the files it names. If either is
//! not what it was when the person looked, the approval is void.

use std::sync::Arc;

use haft_contract::{
    CallEvent, ErrorKind, PlanDigest, ToolError,
    host::{ApprovalAnswer, ApprovalId, ApprovalRequest, Decision, Durability},
    outcome::DeniedBy,
};
use tokio::time::Instant;

use super::{Decided, Halt, Planned, luggage::cancelled};
use crate::digest::{digest_of, plan_form};

/// A call that may run.
pub struct Authorized {
    pub(super) planned: Planned,
    /// What a person approved, if one was asked.
    pub(super) approved: Option<PlanDigest>,
}

/// Lets an allowed call pass, and asks about the others.
pub async fn approve(decided: Decided) -> Result<Authorized, Halt> {
    let Decided { planned, asks } = decided;
    match asks {
        None => Ok(Authorized {
            planned,
            approved: None,
        }),
        Some(decision) => ask(planned, decision).await,
    }
}

async fn ask(mut planned: Planned, decision: Decision) -> Result<Authorized, Halt> {
    let runtime = Arc::clone(&planned.luggage.runtime);
    let form = Arc::new(plan_form(&planned.plan, &planned.versions));
    let digest = digest_of(&form);
    let id = ApprovalId::new();
    let expires = runtime.clock.now().after(runtime.limits.approval_wait);
    planned.luggage.recording.note(CallEvent::ApprovalAsked {
        id,
        digest,
        expires,
    });
    // What waits for a person is on record before they are asked, so that it can be listed.
    if let Err(error) = planned.luggage.recording.commit(Durability::Queued).await {
        let error = ToolError::new(ErrorKind::Unavailable, error.to_string());
        return Err(planned.luggage.halt(error).denied_by(DeniedBy::Ledger));
    }
    let request = ApprovalRequest {
        id,
        form,
        proposals: Vec::new(),
        call: planned.luggage.call,
        principal: Arc::clone(&planned.luggage.principal),
        plan: Arc::clone(&planned.plan),
        digest,
        decision: decision.clone(),
        expires,
    };
    let asked = Instant::now();
    let answer = tokio::select! {
        biased;
        () = planned.luggage.cancel.cancelled() => None,
        answer = runtime.approver.ask(request) => Some(answer),
        () = tokio::time::sleep(runtime.limits.approval_wait) => Some(ApprovalAnswer::Expired),
    };
    planned.luggage.facts.timings.asked = asked.elapsed();
    let Some(answer) = answer else {
        return Err(planned.luggage.halt(cancelled()));
    };
    planned.luggage.recording.note(CallEvent::ApprovalAnswered {
        answer: answer.clone(),
    });
    let (by, message, hint) = match answer {
        ApprovalAnswer::Approved {
            digest: answered, ..
        } if answered == digest => {
            return Ok(Authorized {
                planned,
                approved: Some(digest),
            });
        }
        ApprovalAnswer::Approved { .. } => (
            DeniedBy::Person,
            "the approval was given for another plan".to_owned(),
            "ask again".to_owned(),
        ),
        ApprovalAnswer::Refused { by, reason } => (
            DeniedBy::Person,
            match reason {
                Some(reason) => format!("{by} refused: {reason}"),
                None => format!("{by} refused"),
            },
            "do not repeat the call; ask what to do instead".to_owned(),
        ),
        ApprovalAnswer::Elsewhere => (
            DeniedBy::NobodyToAsk,
            format!("{}, and nobody answers from elsewhere", decision.reason),
            "ask where somebody can answer".to_owned(),
        ),
        ApprovalAnswer::NobodyThere { reason } => (
            DeniedBy::NobodyToAsk,
            format!("{}, and there is nobody to ask", decision.reason),
            reason,
        ),
        ApprovalAnswer::Expired => (
            DeniedBy::Expired,
            "nobody answered in time".to_owned(),
            "repeat the call when somebody is there to answer".to_owned(),
        ),
    };
    let error = ToolError::new(ErrorKind::Denied, message).hint(hint);
    Err(planned.luggage.halt(error).denied_by(by))
}
