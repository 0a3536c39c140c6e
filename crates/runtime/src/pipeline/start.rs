//! The intent goes on record. For a call that changes something this waits for the disk: if the
//! machine dies from here on, the next start finds the call and says that its end is unknown.

use haft_contract::{CallEvent, ErrorKind, ToolError, host::Durability, outcome::DeniedBy};

use super::{Admitted, Halt};

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
    recording.note(CallEvent::Started {
        tier: planned.plan.tier,
        approval: None,
        grants: Vec::new(),
    });
    let durability = if planned.plan.effects.is_mutating() {
        Durability::Durable
    } else {
        Durability::Queued
    };
    if let Err(error) = recording.commit(durability).await {
        let error = ToolError::new(
            ErrorKind::Unavailable,
            format!("the call cannot be recorded, so it is not run: {error}"),
        )
        .hint("`haft doctor` checks the ledger");
        return Err(admitted
            .planned
            .luggage
            .halt(error)
            .denied_by(DeniedBy::Ledger));
    }
    Ok(Started { admitted })
}
