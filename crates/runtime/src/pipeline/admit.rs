//! Waiting for a turn: locks on what the call touches. After a person approved, also a second
//! look at the files they approved.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_contract::{CallEvent, ErrorKind, Plan, ToolError, outcome::DeniedBy};
use tokio::time::Instant;

use super::{Authorized, Halt, Planned, luggage::cancelled, plan::resolve_accesses};
use crate::{digest::plan_digest, locks::Held};

/// A call that holds its locks.
pub struct Admitted {
    pub(super) planned: Planned,
    pub(super) held: Held,
}

/// Takes the locks, within the admission limit.
pub async fn admit(authorized: Authorized) -> Result<Admitted, Halt> {
    let Authorized {
        mut planned,
        approved,
    } = authorized;
    let runtime = Arc::clone(&planned.luggage.runtime);
    planned.luggage = planned.luggage.unless_cancelled()?;
    let plan = Arc::clone(&planned.plan);
    let mut acquiring = pin!(runtime.locks.acquire(&plan.backend, &plan.accesses));
    // Most calls find nobody in their way and need no clock to wait by.
    let (held, waited) = match (&mut acquiring).now_or_never() {
        Some(held) => (held, Duration::ZERO),
        None => match wait(&planned, acquiring).await {
            Ok(turn) => turn,
            Err(error) => return Err(planned.luggage.halt(error)),
        },
    };
    planned.luggage.facts.timings.queued = waited;
    if approved.is_some() {
        // Only now that the locks are held can no other call change the files any more.
        planned = unchanged_since_approval(planned).await?;
    }
    planned
        .luggage
        .recording
        .note(CallEvent::Admitted { waited });
    Ok(Admitted { planned, held })
}

/// Waits for the locks, within the admission limit; how long that took.
async fn wait(
    planned: &Planned,
    acquiring: impl Future<Output = Held>,
) -> Result<(Held, Duration), ToolError> {
    let asked = Instant::now();
    tokio::select! {
        biased;
        () = planned.luggage.cancel.cancelled() => Err(cancelled()),
        held = acquiring => Ok((held, asked.elapsed())),
        () = tokio::time::sleep(planned.luggage.runtime.limits.admission_wait) => {
            Err(ToolError::new(
                ErrorKind::Unavailable,
                "other calls held what this one touches for too long",
            )
            .hint("repeat the call once they have ended"))
        }
    }
}

/// Resolves the paths again: they must still lead to the same versions of the same files.
async fn unchanged_since_approval(planned: Planned) -> Result<Planned, Halt> {
    let mut again = Plan::new(planned.plan.effects);
    again.accesses.clone_from(&planned.plan.accesses);
    let unchanged = match resolve_accesses(&mut again, &planned.luggage).await {
        Ok(versions) => {
            let mut now = (*planned.plan).clone();
            now.accesses = again.accesses;
            plan_digest(&now, &versions) == plan_digest(&planned.plan, &planned.versions)
        }
        Err(_) => false,
    };
    if unchanged {
        return Ok(planned);
    }
    let error = ToolError::new(
        ErrorKind::Conflict,
        "a file the call touches changed after it was approved; the approval is void",
    )
    .hint("read the file again and repeat the call");
    Err(planned.luggage.halt(error).denied_by(DeniedBy::Expired))
}
