//! The intent goes on record. For a call that changes something this waits for the disk: if the
//! machine dies from here on, the next start finds the call and says that its end is unknown.
//!
//! From here on the session has read from the source the tool belongs to, if others write it: the
//! label is on record, and with the session, before the source is asked for anything.
//!
//! The same transaction uses up the approval or the grants the call rests on, so that there is no
//! moment at which a call has started and its approval could serve another.

use haft_contract::{
    CallEvent, ErrorKind, ToolError,
    host::{Durability, LedgerError, LedgerErrorKind},
    outcome::DeniedBy,
};

use super::{Admitted, Halt, approve::Basis};

/// A call whose intent is recorded.
pub struct Started {
    pub(super) admitted: Admitted,
}

/// Records the intent. What cannot be recorded does not run.
pub async fn start(admitted: Admitted) -> Result<Started, Halt> {
    let planned = &admitted.planned;
    let recording = &planned.luggage.recording;
    if planned.luggage.cancel.is_cancelled() {
        return Err(admitted.planned.luggage.halt(super::luggage::cancelled()));
    }
    let (approval, grants) = match &admitted.basis {
        Basis::Policy => (None, Vec::new()),
        Basis::Grants(grants) => (None, grants.iter().map(|grant| grant.id).collect()),
        Basis::Approval(approved) => (Some(approved.id), Vec::new()),
    };
    let rests_on_a_person = approval.is_some() || !grants.is_empty();
    let label = planned.luggage.new_label();
    let durability = if planned.plan.effects.is_mutating() || rests_on_a_person || label.is_some() {
        Durability::Durable
    } else {
        Durability::Queued
    };
    if rests_on_a_person {
        // What led here stays on record even if the approval turns out to be used.
        if let Err(error) = recording.commit(Durability::Queued).await {
            return Err(refused(admitted, &error));
        }
    }
    let started = CallEvent::Started {
        tier: planned.plan.tier,
        approval,
        grants,
    };
    match recording.start(started, durability).await {
        Ok(()) => {
            if let (Some(label), Some(session)) = (label, &planned.luggage.session) {
                session.add(label);
            }
            Ok(Started { admitted })
        }
        Err(error) => Err(refused(admitted, &error)),
    }
}

fn refused(admitted: Admitted, error: &LedgerError) -> Halt {
    let (by, error) = match (error.kind(), &admitted.basis) {
        (LedgerErrorKind::Conflict, Basis::Approval(_)) => (
            DeniedBy::Expired,
            ToolError::new(
                ErrorKind::Conflict,
                "the approval was used by another call, or taken back",
            )
            .hint("an approval serves one call; repeat this one to be asked again"),
        ),
        (LedgerErrorKind::Conflict, Basis::Grants(_)) => (
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
            .hint("`haft doctor` checks the ledger"),
        ),
    };
    admitted.planned.luggage.halt(error).denied_by(by)
}
