//! Records the intent. For a call that changes something this waits for the disk: if the machine
//! dies after this, the next start finds the call and reports its end as unknown.
//!
//! From here on the session counts as having read from the tool's source, if outsiders write it:
//! the label is in the record and in the session before anything is requested from the source.
//!
//! The same transaction uses up the approval or the grants the call rests on, so that the approval
//! of a started call can never serve another. It also compares what the session has read from with
//! what the call was judged with, because another process may have started a call of the same
//! session meanwhile. If they differ, the call is judged again, and started or refused.

use haft_contract::{
    CallEvent, ErrorKind, Label, ToolError,
    host::{Durability, LedgerError, LedgerErrorKind},
    label::MAX_LABELS,
    outcome::DeniedBy,
    surface::NextStep,
};

use super::{AdmittedCall, HaltedCall, PlannedCall, admit::judged_again, approve::RunBasis};
use crate::{halt::cancelled, locks::HeldLocks};

/// How often to retry a start whose session has read from more each time. Every retry adds at least
/// one label, and there are at most `MAX_LABELS` of them.
const MAX_TRIES: usize = MAX_LABELS + 2;

/// A call whose intent is recorded.
pub struct StartedCall {
    pub(super) planned: PlannedCall,
    pub(super) held: HeldLocks,
}

/// Records the intent. A call that cannot be recorded does not run.
pub async fn start(mut admitted: AdmittedCall) -> Result<StartedCall, HaltedCall> {
    for _ in 0..MAX_TRIES {
        let call = &admitted.planned.call;
        if call.cancel.is_cancelled() {
            return Err(admitted.planned.call.halt(cancelled()));
        }
        let label = call.new_label();
        match record(&admitted, label.as_ref()).await {
            Ok(()) => {
                let session = &admitted.planned.call.session;
                if let (Some(label), Some(session)) = (label, session) {
                    session.add(label);
                }
                if let (true, Some(session)) = (call.beyond_budget, session) {
                    session.outgoing().let_pass(&admitted.planned.plan);
                }
                let AdmittedCall { planned, held, .. } = admitted;
                return Ok(StartedCall { planned, held });
            }
            Err(error) if error.kind() == LedgerErrorKind::ReadMore => {
                admitted = Box::pin(after_reading_more(admitted)).await?;
            }
            Err(error) => return Err(refused(admitted, &error)),
        }
    }
    let error = ToolError::new(
        ErrorKind::Conflict,
        "the session kept reading from new sources while this call was about to start",
    )
    .hint("repeat the call when fewer are in flight");
    let halt = admitted.planned.call.halt(error);
    Err(halt.denied_by(DeniedBy::Expired))
}

/// Records the start, if what it rests on still holds.
async fn record(admitted: &AdmittedCall, label: Option<&Label>) -> Result<(), LedgerError> {
    let planned = &admitted.planned;
    let recording = &planned.call.recording;
    let (approval, grants) = match &admitted.basis {
        RunBasis::Policy => (None, Vec::new()),
        RunBasis::Grants(grants) => (None, grants.iter().map(|grant| grant.id).collect()),
        RunBasis::Approval(approved) => (Some(approved.id), Vec::new()),
    };
    let rests_on_a_person = approval.is_some() || !grants.is_empty();
    let durability = if planned.plan.effects().is_mutating() || rests_on_a_person || label.is_some()
    {
        Durability::Durable
    } else {
        Durability::Queued
    };
    if rests_on_a_person {
        // The events so far stay on record even if the approval turns out to be used.
        recording.commit(Durability::Queued).await?;
    }
    // A call that only reads does not wait to be refused. It was just judged by what the record
    // said, and its caller had not read anything newer.
    let read_from = match durability {
        Durability::Durable => Some(admitted.judged_with.clone()),
        Durability::Queued => None,
    };
    let started = CallEvent::Started {
        tier: planned.plan.tier(),
        approval,
        grants,
        read_from,
    };
    recording.start(started, durability).await
}

/// Judges a call again after its session has read from more, in any process.
async fn after_reading_more(mut admitted: AdmittedCall) -> Result<AdmittedCall, HaltedCall> {
    if let Some(session) = &admitted.planned.call.session {
        session.doubt();
    }
    admitted.planned.call = admitted.planned.call.caught_up().await?;
    admitted.judged_with = admitted.planned.call.read_from();
    admitted.planned = judged_again(admitted.planned, &mut admitted.basis).await?;
    Ok(admitted)
}

fn refused(admitted: AdmittedCall, error: &LedgerError) -> HaltedCall {
    let (by, error) = match (error.kind(), &admitted.basis) {
        (LedgerErrorKind::Conflict, RunBasis::Approval(_)) => (
            DeniedBy::Expired,
            ToolError::new(
                ErrorKind::Conflict,
                "the approval was used by another call, or taken back",
            )
            .hint("an approval serves one call; repeat this one to be asked again"),
        ),
        (LedgerErrorKind::Conflict, RunBasis::Grants(_)) => (
            DeniedBy::Expired,
            ToolError::new(
                ErrorKind::Conflict,
                "a standing approval the call rests on was used up or revoked",
            )
            .hint("repeat the call to be asked"),
        ),
        _ => (
            DeniedBy::Ledger,
            ToolError::new(
                ErrorKind::Unavailable,
                format!("the call cannot be recorded, so it is not run: {error}"),
            )
            .hint(NextStep::CheckRecord.text()),
        ),
    };
    admitted.planned.call.halt(error).denied_by(by)
}
