//! Waiting for a turn: locks on what the call touches. A call that rests on a person's approval,
//! had to wait, whose session has read from another source, or whose rules were replaced, is then
//! checked again: against the newest rules, which can only make it stricter, with the grants that hold
//! where they ask, and for an approval also against the tool, the files and the programs it was given for.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use haft_contract::{
    Access, CallEvent, ErrorKind, Labels, Masks, Plan, SealedPlan, ToolError,
    host::{Decision, Grant, Verdict},
    outcome::DeniedBy,
};
use tokio::time::Instant;

use super::{
    Authorized, HaltedCall, PlannedCall,
    approval_form::{ApprovalBinding, plan_form},
    approve::{Approved, RunBasis},
    decide::{denied, judge, judge_now, judge_now_with_grants},
    plan::{resolve_accesses, wanted_masks},
};
use crate::{digest::digest_of, halt::cancelled, locks::HeldLocks, preview::look_at};

/// How an error names a file that is not the one the person was shown.
const FILES: &str = "a file the call touches";

/// How an error names the sources of a session that has read from another one.
const READ_FROM: &str = "what the session has read from";

/// A call that holds its locks.
pub struct AdmittedCall {
    pub(super) planned: PlannedCall,
    pub(super) held: HeldLocks,
    /// What lets it run.
    pub(super) basis: RunBasis,
    /// What the session had read from when the call was last judged.
    pub(super) judged_with: Labels,
}

/// Takes the locks, within the admission limit.
pub async fn admit(authorized: Authorized) -> Result<AdmittedCall, HaltedCall> {
    let Authorized {
        mut planned,
        mut basis,
    } = authorized;
    let engine = Arc::clone(&planned.call.engine);
    planned.call = planned.call.unless_cancelled()?;
    let plan = Arc::clone(&planned.plan);
    let workspace = Arc::clone(&planned.call.workspace);
    let mut acquiring = pin!(engine.locks.acquire(&workspace, plan.accesses()));
    // Most calls find their locks free and need no timer.
    let (held, waited) = match (&mut acquiring).now_or_never() {
        Some(held) => (held, Duration::ZERO),
        // Boxed, as is judging again: most calls do neither and should not carry the size.
        None => match Box::pin(wait(&planned, acquiring)).await {
            Ok(turn) => turn,
            Err(error) => return Err(planned.call.halt(error)),
        },
    };
    planned.call.facts.timings.queued = waited;
    planned.call = planned.call.caught_up().await?;
    // Taken before anything is judged: a call judged with more labels was judged with these too.
    let judged_with = planned.call.read_from();
    // Only with the locks held can no other call change the files.
    if !matches!(basis, RunBasis::Policy)
        || !waited.is_zero()
        || has_read_more(&planned)
        || rules_were_replaced(&planned)
    {
        planned = Box::pin(judged_again(planned, &mut basis)).await?;
    }
    planned.call.recording.note(CallEvent::Admitted { waited });
    Ok(AdmittedCall {
        planned,
        held,
        basis,
        judged_with,
    })
}

/// Judges a call again, with the current rules and labels. What lets it run may be more than before:
/// a grant that covers what the newest rules ask about.
pub(super) async fn judged_again(
    planned: PlannedCall,
    basis: &mut RunBasis,
) -> Result<PlannedCall, HaltedCall> {
    let held: &[Grant] = match basis {
        RunBasis::Policy => &[],
        RunBasis::Grants(grants) => grants,
        RunBasis::Approval(approved) => return unchanged_since_approval(planned, approved).await,
    };
    let (planned, grants) = still_allowed(planned, held).await?;
    if let Some(grants) = grants {
        *basis = RunBasis::Grants(grants);
    }
    Ok(planned)
}

/// Waits for the locks, within the admission limit. Returns how long that took.
async fn wait(
    planned: &PlannedCall,
    acquiring: impl Future<Output = HeldLocks>,
) -> Result<(HeldLocks, Duration), ToolError> {
    let asked = Instant::now();
    tokio::select! {
        biased;
        () = planned.call.cancel.cancelled() => Err(cancelled()),
        held = acquiring => Ok((held, asked.elapsed().max(Duration::from_nanos(1)))),
        () = tokio::time::sleep(planned.call.engine.limits.admission_wait) => {
            Err(ToolError::new(
                ErrorKind::Unavailable,
                "other calls held what this one touches for too long",
            )
            .hint("repeat the call once they have ended"))
        }
    }
}

/// Whether the session has read from something since the call was planned.
fn has_read_more(planned: &PlannedCall) -> bool {
    planned.call.read_from() != *planned.plan.read_from()
}

/// Whether another version of the rules is in force than the one the call carries.
fn rules_were_replaced(planned: &PlannedCall) -> bool {
    let call = &planned.call;
    !Arc::ptr_eq(&call.workspace.rules.current(), &call.rules)
}

/// Whether the newest rules demand a stronger confinement than the plan has. Its tier was chosen
/// under the version the call carries.
fn is_confined_too_weakly(planned: &PlannedCall) -> bool {
    let call = &planned.call;
    let is_command = |access: &Access| matches!(access, Access::Command(_));
    let newest = call.workspace.rules.current();
    planned.plan.accesses().iter().any(is_command)
        && !call
            .workspace
            .sandbox_mode(&newest, &planned.entry)
            .accepts(planned.plan.tier())
}

/// Whether the newest rules mask more of the workspace for commands than the plan does. Then a grant
/// would let a command see what a new call under the same grant could not.
fn is_masked_too_little(planned: &PlannedCall) -> bool {
    let PlannedCall {
        call, entry, plan, ..
    } = planned;
    let is_command = |access: &Access| matches!(access, Access::Command(_));
    let newest = call.workspace.rules.current();
    let missing = |wanted: Masks| {
        let rest = wanted.without(plan.masks());
        !rest.without(plan.attempted_masks()).is_empty()
    };
    plan.accesses().iter().any(is_command)
        && wanted_masks(&newest, call, entry, plan).is_none_or(missing)
}

/// The current rules must still allow the call without asking a person, given what the session has
/// read by now, and as it is confined. If it takes other grants than it had, these are returned.
async fn still_allowed(
    planned: PlannedCall,
    held: &[Grant],
) -> Result<(PlannedCall, Option<Vec<Grant>>), HaltedCall> {
    let (decision, grants) = match judged_with_grants(&planned, held).await {
        Ok(judged) => judged,
        Err(error) => return Err(planned.call.halt(error)),
    };
    match decision.verdict {
        Verdict::Allow if is_confined_too_weakly(&planned) => {
            let error = ToolError::new(
                ErrorKind::Conflict,
                "the rules changed while the call waited: they demand a stronger sandbox now",
            )
            .hint("repeat the call to run it there");
            Err(overruled(planned, decision)
                .call
                .halt(error)
                .denied_by(DeniedBy::Expired))
        }
        Verdict::Allow if grants.is_some() && is_masked_too_little(&planned) => {
            let error = ToolError::new(
                ErrorKind::Conflict,
                "the rules changed while the call waited: they keep more from commands now",
            )
            .hint("repeat the call to run it so");
            Err(overruled(planned, decision)
                .call
                .halt(error)
                .denied_by(DeniedBy::Expired))
        }
        // The decision rests on other grants than the one on record, so it takes its place.
        Verdict::Allow if grants.is_some() => {
            let mut planned = overruled(planned, Arc::clone(&decision));
            let both = planned.call.withheld.iter().chain(&decision.withheld);
            planned.call.withheld = both.cloned().collect();
            Ok((planned, grants))
        }
        Verdict::Allow => Ok((planned, None)),
        Verdict::Deny => {
            let planned = overruled(planned, Arc::clone(&decision));
            Err(denied(planned, decision))
        }
        Verdict::Ask => {
            let error = ToolError::new(
                ErrorKind::Conflict,
                format!(
                    "{} changed while the call waited: {}",
                    if has_read_more(&planned) {
                        READ_FROM
                    } else {
                        "the rules"
                    },
                    decision.reason
                ),
            )
            .hint("repeat the call to be asked");
            Err(overruled(planned, decision)
                .call
                .halt(error)
                .denied_by(DeniedBy::Expired))
        }
    }
}

/// What the current rules say with the grants that the call has. If they ask, those that hold now are
/// looked for, as for a new call, and returned with the answer.
async fn judged_with_grants(
    planned: &PlannedCall,
    held: &[Grant],
) -> Result<(Arc<Decision>, Option<Vec<Grant>>), ToolError> {
    let decision = judge_now(planned, held)?;
    if decision.verdict != Verdict::Ask {
        return Ok((decision, None));
    }
    let (decision, grants) = judge_now_with_grants(planned).await?;
    Ok((decision, Some(grants)))
}

/// Records that this decision takes the place of the earlier one, as a whole: the record names the
/// version that decided how the call ended.
fn overruled(mut planned: PlannedCall, decision: Arc<Decision>) -> PlannedCall {
    planned.call.recording.note(CallEvent::Decided {
        decision: Arc::clone(&decision),
    });
    planned.call.facts.decision = Some(decision);
    planned
}

/// The current rules must not deny the call, and everything the approval binds must be unchanged.
/// The preview is not made again: it is compared as it was.
async fn unchanged_since_approval(
    planned: PlannedCall,
    approved: &Approved,
) -> Result<PlannedCall, HaltedCall> {
    let decision = match judge_now(&planned, &[]) {
        Ok(decision) => decision,
        Err(error) => return Err(planned.call.halt(error)),
    };
    if decision.verdict == Verdict::Deny {
        let planned = overruled(planned, Arc::clone(&decision));
        return Err(denied(planned, decision));
    }
    let Some(what) = changed(&planned, approved, &decision).await else {
        return Ok(planned);
    };
    let error = ToolError::new(
        ErrorKind::Conflict,
        format!("{what} changed after the call was approved; the approval is void"),
    )
    .hint("look at what is there now and repeat the call");
    Err(planned.call.halt(error).denied_by(DeniedBy::Expired))
}

/// What has changed since the person looked, if anything.
async fn changed(
    planned: &PlannedCall,
    approved: &Approved,
    decision: &Decision,
) -> Option<&'static str> {
    let facts = planned.call.facts.decision.as_ref();
    let newest = planned.call.workspace.rules.current().version();
    if facts.is_none_or(|before| before.policy != decision.policy) || decision.policy != newest {
        return Some("the rules");
    }
    // Its arguments were fixed before the session read more, so the approval holds, unless a rule
    // about what was read would have made policy ask.
    if has_read_more(planned)
        && judge(planned, &[]).map_or(true, |before| before.rule != decision.rule)
    {
        return Some(READ_FROM);
    }
    let tools = planned.call.workspace.registry.snapshot();
    let now = tools.get(planned.entry.key().tool.as_str());
    let differs = now.is_none_or(|entry| entry.digest() != planned.entry.digest());
    // What is in no registry cannot be replaced there.
    if differs && !planned.call.apart {
        return Some("the tool");
    }
    let mut again = Plan::new(planned.plan.effects());
    again.accesses = planned.plan.accesses().to_vec();
    let Ok(targets) = resolve_accesses(&mut again, &planned.call).await else {
        return Some(FILES);
    };
    let plan = SealedPlan::clone(&planned.plan).with_accesses(again.accesses);
    let form = plan_form(&ApprovalBinding {
        principal: &planned.call.principal,
        tool: planned.entry.digest(),
        policy: &decision.policy,
        plan: &plan,
        withheld: &planned.call.withheld,
        versions: &targets.versions,
        programs: &look_at(approved.programs.clone(), &planned.call).await,
        preview: &serde_json::from_str(&approved.preview).unwrap_or_default(),
    });
    (digest_of(&form) != approved.digest).then_some(FILES)
}
