//! Waits for whichever ends a question first: the local approver, the record, cancellation, or
//! expiry. Holds no thread and no form.
//!
//! A local answer counts only once it is recorded. If somebody else answered first, their answer
//! counts.

use std::time::Duration;

use haft_contract::{
    TenantId,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalAnswer, ApprovalId, ApprovalRequest,
        ApprovalState, ApprovalStore, GivenAnswer, GivenVerdict, GrantRequest, LedgerErrorKind,
    },
};

use tokio::sync::MutexGuard;

use super::PlannedCall;
use crate::{first_answer::first_answer, pending_questions::QuestionGuard};

/// The pause after the record could not be read for an answer; it grows to one second.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The result of a question.
pub(super) enum AnswerOutcome {
    /// Somebody said yes.
    Yes {
        by: String,
        /// What they allow from now on, if anything.
        wish: Option<GrantRequest>,
    },
    /// Somebody said no.
    No { by: String, reason: Option<String> },
    /// Somebody said yes, but to another plan.
    OtherPlan,
    /// There is nobody to ask.
    Nobody { what_to_do: String },
    /// The approver failed.
    Failed { reason: String },
    /// Nobody answered in time.
    Late,
    /// The approver gave up on an answer.
    GaveUp,
    /// The question was withdrawn: its session ended.
    TakenBack,
    /// Another call was started with the answer.
    Used,
    /// The caller no longer wants an answer.
    Cancelled,
    /// The record failed.
    Broken(String),
}

/// Waits for the answer to a recorded question.
pub(super) async fn await_answer(
    planned: &PlannedCall,
    request: ApprovalRequest,
    found: Approval,
    waits: QuestionGuard,
) -> AnswerOutcome {
    let Approval {
        id,
        expires,
        state,
        form,
        ..
    } = found;
    // The record has it; ten thousand waiting calls need not hold it too.
    drop(form);
    if let Some(heard) = from_record(state) {
        waits.answered();
        return heard;
    }
    let call = &planned.call;
    let engine = &call.engine;
    let tenant = &call.principal.tenant;
    let approvals = engine.ledger.approvals();
    let left = expires.since(engine.clock.now());
    let heard = tokio::select! {
        biased;
        () = call.cancel.cancelled() => AnswerOutcome::Cancelled,
        heard = elsewhere(&*approvals, tenant, id) => heard,
        said = Box::pin(here(planned, &*approvals, &waits, request)) => match said {
            // Outside the race: otherwise `elsewhere` would see it in the record first, without the
            // grant request.
            LocalReply::Answer(answer) => Box::pin(answer.put_on_record(planned, &*approvals)).await,
            LocalReply::Heard(heard) => heard,
        },
        () = tokio::time::sleep(left) => AnswerOutcome::Late,
    };
    match heard {
        AnswerOutcome::Yes { .. }
        | AnswerOutcome::No { .. }
        | AnswerOutcome::Late
        | AnswerOutcome::TakenBack
        | AnswerOutcome::Used => {
            waits.answered();
        }
        AnswerOutcome::OtherPlan
        | AnswerOutcome::Nobody { .. }
        | AnswerOutcome::Failed { .. }
        | AnswerOutcome::GaveUp
        | AnswerOutcome::Cancelled
        | AnswerOutcome::Broken(_) => waits.give_up().await,
    }
    heard
}

/// The answer in the record, from anybody, in any process.
async fn elsewhere(
    approvals: &dyn ApprovalStore,
    tenant: &TenantId,
    id: ApprovalId,
) -> AnswerOutcome {
    let mut pause = FIRST_PAUSE;
    loop {
        match approvals.answered(tenant, id).await {
            Ok(approval) => return from_record(approval.state).unwrap_or(AnswerOutcome::GaveUp),
            // A record that is busy for a moment does not end the wait; the question's expiry does.
            Err(error) if error.kind() == LedgerErrorKind::Unavailable => {
                tracing::warn!(%error, %id, "the record could not be asked for an answer");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => return AnswerOutcome::Broken(error.to_string()),
        }
    }
}

/// What the local approver said.
enum LocalReply<'a> {
    /// An answer, which counts only once it is recorded.
    Answer(LocalAnswer<'a>),
    /// An outcome that needs no record.
    Heard(AnswerOutcome),
}

struct LocalAnswer<'a> {
    id: ApprovalId,
    given: GivenAnswer,
    by: String,
    wish: Option<GrantRequest>,
    /// Until the answer is recorded, no other call asks the same.
    _turn: MutexGuard<'a, ()>,
}

/// Asks the local approver. Only one call at a time asks about a question.
async fn here<'a>(
    planned: &PlannedCall,
    approvals: &dyn ApprovalStore,
    waits: &'a QuestionGuard,
    request: ApprovalRequest,
) -> LocalReply<'a> {
    let (id, digest) = (request.id, request.digest);
    let tenant = &planned.call.principal.tenant;
    let first = waits.turn().try_lock();
    let turn = if let Ok(turn) = first {
        turn
    } else {
        let turn = waits.turn().lock().await;
        // The call that had the turn before may have got the answer.
        if let Ok(Some(now)) = approvals.get(tenant, id).await
            && let Some(heard) = from_record(now.state)
        {
            return LocalReply::Heard(heard);
        }
        turn
    };
    let (verdict, by, wish) = match ask_here(planned, request).await {
        ApprovalAnswer::Approved {
            by,
            digest: answered,
            grant,
        } if answered == digest => (GivenVerdict::Approve, by, grant),
        ApprovalAnswer::Approved { .. } => return LocalReply::Heard(AnswerOutcome::OtherPlan),
        ApprovalAnswer::Refused { by, reason } => (GivenVerdict::Refuse { reason }, by, None),
        ApprovalAnswer::NobodyThere { reason } => {
            return LocalReply::Heard(AnswerOutcome::Nobody { what_to_do: reason });
        }
        ApprovalAnswer::Failed { reason } => {
            return LocalReply::Heard(AnswerOutcome::Failed { reason });
        }
        ApprovalAnswer::Expired => return LocalReply::Heard(AnswerOutcome::GaveUp),
        ApprovalAnswer::Elsewhere => return std::future::pending().await,
    };
    let given = GivenAnswer {
        verdict,
        digest,
        by: Answerer::Person {
            name: by.clone(),
            place: AnswerPlace::Here,
        },
    };
    LocalReply::Answer(LocalAnswer {
        id,
        given,
        by,
        wish,
        _turn: turn,
    })
}

/// Asks the workspace's approver, and beside it the caller that takes its questions itself.
async fn ask_here(planned: &PlannedCall, request: ApprovalRequest) -> ApprovalAnswer {
    let approver = &planned.call.workspace.approver;
    match &planned.call.asker {
        None => approver.ask(request).await,
        // Whoever has nobody to ask for this caller is not asked now either.
        Some(asker)
            if approver
                .cannot_ask(&planned.call.principal, &planned.plan)
                .is_some() =>
        {
            asker.ask(request).await
        }
        Some(asker) => first_answer(asker.ask(request.clone()), approver.ask(request)).await,
    }
}

impl LocalAnswer<'_> {
    /// Records the answer. If somebody answered first, theirs counts.
    async fn put_on_record(
        self,
        planned: &PlannedCall,
        approvals: &dyn ApprovalStore,
    ) -> AnswerOutcome {
        let Self {
            id,
            given,
            by,
            wish,
            _turn,
        } = self;
        let verdict = given.verdict.clone();
        let now = planned.call.engine.clock.now();
        let tenant = &planned.call.principal.tenant;
        match approvals.answer(tenant, id, given, now).await {
            Ok(_) => match verdict {
                GivenVerdict::Approve => AnswerOutcome::Yes { by, wish },
                GivenVerdict::Refuse { reason } => AnswerOutcome::No { by, reason },
            },
            Err(AnswerError::NotOpen { state }) => {
                from_record(state).unwrap_or(AnswerOutcome::GaveUp)
            }
            Err(error) => AnswerOutcome::Broken(error.to_string()),
        }
    }
}

/// What a recorded state means to a waiting call; `None` while the question is open.
fn from_record(state: ApprovalState) -> Option<AnswerOutcome> {
    match state {
        ApprovalState::Pending => None,
        ApprovalState::Approved { by, .. } => Some(AnswerOutcome::Yes { by, wish: None }),
        ApprovalState::Refused { by, reason, .. } => Some(AnswerOutcome::No { by, reason }),
        ApprovalState::Lapsed => Some(AnswerOutcome::Late),
        ApprovalState::Withdrawn => Some(AnswerOutcome::TakenBack),
        ApprovalState::Used { .. } => Some(AnswerOutcome::Used),
    }
}

impl AnswerOutcome {
    /// Anything but a yes, in the form an event records; `None` for a call that was cancelled or
    /// whose answer could not be recorded.
    pub(super) fn as_refusal(&self) -> Option<ApprovalAnswer> {
        match self {
            Self::No { by, reason } => Some(ApprovalAnswer::Refused {
                by: by.clone(),
                reason: reason.clone(),
            }),
            Self::Nobody { what_to_do } => Some(ApprovalAnswer::NobodyThere {
                reason: what_to_do.clone(),
            }),
            Self::Failed { reason } => Some(ApprovalAnswer::Failed {
                reason: reason.clone(),
            }),
            Self::Late | Self::GaveUp | Self::TakenBack | Self::Used | Self::OtherPlan => {
                Some(ApprovalAnswer::Expired)
            }
            Self::Yes { .. } | Self::Cancelled | Self::Broken(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_contract::{
        CallId, PlanDigest,
        host::{ApprovalQuestion, Timestamp},
    };
    use haft_testkit::{MemoryLedger, principal::principal};
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_record_that_is_down_for_a_while_ends_no_wait_and_a_question_it_lost_does() {
        let record = MemoryLedger::new();
        let who = principal();
        let question = ApprovalQuestion {
            call: CallId::new(),
            principal: Arc::clone(&who),
            digest: PlanDigest([0; 32]),
            form: Arc::new(json!({})),
            summary: "act".to_owned(),
            asked: Timestamp(0),
            expires: Timestamp(3_600_000_000),
            most_open: 1,
        };
        let asked = record.ask(question).await.unwrap();
        let taken_back = record.withdraw(&who.tenant, asked.id, Timestamp(0)).await;
        taken_back.unwrap();
        record.set_down(true);
        tokio::spawn({
            let record = record.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(30)).await;
                record.set_down(false);
            }
        });
        let heard = elsewhere(&record, &who.tenant, asked.id).await;
        assert!(matches!(heard, AnswerOutcome::TakenBack));

        let lost = ApprovalId::new();
        let heard = elsewhere(&record, &who.tenant, lost);
        let heard = tokio::time::timeout(Duration::from_mins(10), heard).await;
        assert!(matches!(heard, Ok(AnswerOutcome::Broken(_))));
    }
}
