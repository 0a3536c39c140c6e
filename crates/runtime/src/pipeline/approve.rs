//! Asking a person, when policy says so. The call's clock is stopped meanwhile.
//!
//! The question is recorded before anybody is asked, and binds the digest of a form that holds the
//! plan, what it was judged by, and what the person is shown. An earlier answer that is still
//! unused serves this call. Read next: `await_answer.rs` for how an answer arrives, `start.rs` for
//! how it is used up.

use std::{panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{
    CallEvent, ErrorKind, PlanDigest, ToolError, WorkPath,
    host::{
        Approval, ApprovalAnswer, ApprovalId, ApprovalQuestion, ApprovalRequest, Decision,
        Durability, Grant, GrantProposal, LedgerErrorKind, Question,
    },
    outcome::DeniedBy,
    surface::NextStep,
};
use tokio::time::Instant;

use super::{
    DecidedCall, HaltedCall, PlannedCall,
    approval_form::{ApprovalBinding, plan_form},
    await_answer::{AnswerOutcome, await_answer},
    decide::PolicyAnswer,
    keep_grant,
};
use crate::{
    contained_approver::CannotAsk,
    digest::digest_of,
    halt::cancelled,
    pending_questions::QuestionGuard,
    preview::{Program, ShownPreview, show},
};

/// A call that may run.
pub struct Authorized {
    pub(super) planned: PlannedCall,
    pub(super) basis: RunBasis,
}

/// What lets a call run.
pub(super) enum RunBasis {
    /// The rules alone.
    Policy,
    /// The rules, and standing approvals.
    Grants(Vec<Grant>),
    /// A person's approval of exactly this plan.
    Approval(Box<Approved>),
}

/// A person's approval, and what is needed to check whether it still holds.
pub(super) struct Approved {
    pub(super) id: ApprovalId,
    pub(super) digest: PlanDigest,
    /// The approved preview, as text: a waiting call is kept small.
    pub(super) preview: Box<str>,
    /// The programs of the workspace that the plan's commands run.
    pub(super) programs: Vec<WorkPath>,
}

/// Lets an allowed call pass, and asks a person about the others.
pub async fn approve(decided: DecidedCall) -> Result<Authorized, HaltedCall> {
    let DecidedCall { planned, answer } = decided;
    let basis = match answer {
        PolicyAnswer::Allowed(grants) if grants.is_empty() => RunBasis::Policy,
        PolicyAnswer::Allowed(grants) => RunBasis::Grants(grants),
        // Boxed, because most calls never get here and should not carry its size.
        PolicyAnswer::Asks(decision) => return Box::pin(ask(planned, decision)).await,
    };
    Ok(Authorized { planned, basis })
}

/// Asks a person. The parts before and after the wait are boxed: ten thousand calls may wait here,
/// and each holds room for the largest value in this function.
async fn ask(mut planned: PlannedCall, decision: Arc<Decision>) -> Result<Authorized, HaltedCall> {
    let asks = &planned.call.workspace.approver;
    if planned.call.asker.is_none()
        && let Some(why) = asks.cannot_ask(&planned.call.principal, &planned.plan)
    {
        let heard = match why {
            CannotAsk::Nobody(what_to_do) => AnswerOutcome::Nobody { what_to_do },
            CannotAsk::Failed(reason) => AnswerOutcome::Failed { reason },
        };
        return Err(refuse(planned, &decision, heard));
    }
    let ShownPreview {
        preview,
        programs,
        summary,
    } = match Box::pin(show(
        &planned.call,
        &planned.entry,
        &planned.parsed,
        &planned.plan,
    ))
    .await
    {
        Ok(shown) => shown,
        Err(error) => return Err(planned.call.halt(error)),
    };
    let form = plan_form(&ApprovalBinding {
        principal: &planned.call.principal,
        tool: planned.entry.digest(),
        policy: &decision.policy,
        plan: &planned.plan,
        withheld: &planned.call.withheld,
        versions: &planned.versions,
        programs: &programs,
        preview: &preview,
    });
    let digest = digest_of(&form);
    let mut approved = Box::new(Approved {
        id: ApprovalId::new(),
        digest,
        preview: preview.to_string().into(),
        programs: programs
            .into_iter()
            .map(|Program { path, .. }| path)
            .collect(),
    });
    drop(preview);
    let (request, found, waits) =
        match Box::pin(put_on_record(&planned, &decision, form, digest, summary)).await {
            Ok(recorded) => recorded,
            Err((by, error)) => return Err(planned.call.halt(error).denied_by(by)),
        };
    approved.id = found.id;
    let asked = Instant::now();
    let heard = await_answer(&planned, request, found, waits).await;
    planned.call.facts.timings.asked = asked.elapsed();
    match heard {
        AnswerOutcome::Yes { by, wish } => {
            note_answer(
                &planned,
                ApprovalAnswer::Approved {
                    by: by.clone(),
                    digest,
                    grant: wish.clone(),
                },
            );
            if let Some(wish) = wish {
                Box::pin(keep_grant::keep(&mut planned, wish, &by)).await;
            }
            let basis = RunBasis::Approval(approved);
            Ok(Authorized { planned, basis })
        }
        heard => Err(refuse(planned, &decision, heard)),
    }
}

/// Records the question, or finds one that asks the same, and notes that it is asked.
async fn put_on_record(
    planned: &PlannedCall,
    decision: &Arc<Decision>,
    form: serde_json::Value,
    digest: PlanDigest,
    summary: String,
) -> Result<(ApprovalRequest, Approval, QuestionGuard), (DeniedBy, ToolError)> {
    let call = &planned.call;
    let engine = &call.engine;
    let form = Arc::new(form);
    let now = engine.clock.now();
    let most_open = engine.limits.open_approvals;
    let question = ApprovalQuestion {
        call: call.id,
        principal: Arc::clone(&call.principal),
        digest,
        form: Arc::clone(&form),
        summary,
        asked: now,
        expires: now.after(engine.limits.approval_wait),
        most_open,
    };
    let broken = |error: &dyn std::fmt::Display| {
        let message = format!("the question cannot be recorded, so Haft asks nobody: {error}");
        let error = ToolError::new(ErrorKind::Unavailable, message);
        (DeniedBy::Ledger, error.hint(NextStep::CheckRecord.text()))
    };
    let (found, waits) = match QuestionGuard::ask(engine, question).await {
        Ok(asked) => asked,
        Err(error) if error.kind() == LedgerErrorKind::LimitExceeded => {
            let message = format!(
                "a person would have to approve this call, and this session has {most_open} open \
                 questions already"
            );
            let error = ToolError::new(ErrorKind::Denied, message)
                .hint("wait until they are answered; do not repeat the call before");
            return Err((DeniedBy::Policy, error));
        }
        Err(error) => return Err(broken(&error)),
    };
    call.recording.note(CallEvent::ApprovalAsked {
        id: found.id,
        digest,
        expires: found.expires,
    });
    // A waiting call is recorded before anybody is asked, so that it can be listed.
    if let Err(error) = call.recording.commit(Durability::Queued).await {
        return Err(broken(&error));
    }
    let request = ApprovalRequest {
        id: found.id,
        form,
        proposals: proposals(planned),
        call: call.id,
        principal: Arc::clone(&call.principal),
        plan: Arc::clone(&planned.plan),
        digest,
        decision: Arc::clone(decision),
        expires: found.expires,
    };
    Ok((request, found, waits))
}

/// The rules a person could accept to avoid being asked again.
fn proposals(planned: &PlannedCall) -> Vec<GrantProposal> {
    let question = Question {
        principal: &planned.call.principal,
        tool: planned.entry.facts(),
        plan: &planned.plan,
        grants: &[],
    };
    let policy = &planned.call.rules.policy;
    // Proposals are a convenience: without one the person can still answer this once.
    std::panic::catch_unwind(AssertUnwindSafe(|| policy.proposals(&question))).unwrap_or_default()
}

fn note_answer(planned: &PlannedCall, answer: ApprovalAnswer) {
    let (recording, answer) = (&planned.call.recording, Box::new(answer));
    recording.note(CallEvent::ApprovalAnswered { answer });
}

/// Ends a call that was not approved.
fn refuse(planned: PlannedCall, decision: &Decision, heard: AnswerOutcome) -> HaltedCall {
    if let Some(answer) = heard.as_refusal() {
        note_answer(&planned, answer);
    }
    let (by, message, hint) = match heard {
        AnswerOutcome::Cancelled => return planned.call.halt(cancelled()),
        AnswerOutcome::Broken(error) => {
            let message = format!("the answer cannot be recorded, so it does not count: {error}");
            let error = ToolError::new(ErrorKind::Unavailable, message);
            return planned.call.halt(error).denied_by(DeniedBy::Ledger);
        }
        AnswerOutcome::Yes { .. } | AnswerOutcome::OtherPlan => (
            DeniedBy::Person,
            "the approval was given for another plan".to_owned(),
            "ask again".to_owned(),
        ),
        AnswerOutcome::No { by, reason } => (
            DeniedBy::Person,
            match reason {
                Some(reason) => format!("{by} refused: {reason}"),
                None => format!("{by} refused"),
            },
            "do not repeat the call; ask what to do instead".to_owned(),
        ),
        AnswerOutcome::Nobody { what_to_do } => (
            DeniedBy::NobodyToAsk,
            format!("{}, and there is nobody to ask", decision.reason),
            what_to_do,
        ),
        AnswerOutcome::Failed { reason } => (
            DeniedBy::Approver,
            format!(
                "{}, and nobody could be asked, because the approver failed: {reason}",
                decision.reason
            ),
            "do not repeat the call before the approver of this host is corrected".to_owned(),
        ),
        AnswerOutcome::Late | AnswerOutcome::GaveUp => (
            DeniedBy::Expired,
            "nobody answered in time".to_owned(),
            "repeat the call when somebody is there to answer".to_owned(),
        ),
        AnswerOutcome::TakenBack => (
            DeniedBy::Expired,
            "the question was withdrawn because its session ended or its call was cancelled"
                .to_owned(),
            "repeat the call to be asked again".to_owned(),
        ),
        AnswerOutcome::Used => (
            DeniedBy::Expired,
            "the approval was used by another call".to_owned(),
            "an approval serves one call; repeat this one to be asked again".to_owned(),
        ),
    };
    let error = ToolError::new(ErrorKind::Denied, message).hint(hint);
    planned.call.halt(error).denied_by(by)
}
