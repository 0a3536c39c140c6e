//! Paths that are left out of a plan, for tools that treat each of their paths separately.
//!
//! Leaving out only ever makes a plan smaller. What is left is sealed, decided, approved and
//! recorded like every plan, and the guard refuses what is not in it, with the reason kept here.

use haft_contract::{
    Access, ErrorKind, SealedPlan, ToolError,
    host::Verdict,
    ops::{FileVersion, OpsError},
};

use super::{call_state::CallState, decide::judge_plan};
use crate::registry::Entry;

/// The rest of a plan, with the version of each access's target.
pub(super) struct RemainingPlan {
    pub(super) plan: SealedPlan,
    pub(super) versions: Vec<Option<FileVersion>>,
}

/// Whether a failure to resolve a path concerns only that path. A problem with the workspace or the
/// connection to it stops the call.
pub(super) fn is_about_one_path(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::InvalidPath
        | ErrorKind::OutsideWorkspace
        | ErrorKind::Protected
        | ErrorKind::NotFound
        | ErrorKind::AlreadyExists
        | ErrorKind::NotRegularFile
        | ErrorKind::NotDirectory
        | ErrorKind::Symlink
        | ErrorKind::Conflict
        | ErrorKind::AccessDenied
        | ErrorKind::LimitExceeded
        | ErrorKind::Denied
        | ErrorKind::Io => true,
        ErrorKind::InvalidInput
        | ErrorKind::WorkspaceMoved
        | ErrorKind::NoMatch
        | ErrorKind::NotInPlan
        | ErrorKind::UnknownTool
        | ErrorKind::TierUnavailable
        | ErrorKind::MissingScope
        | ErrorKind::CommandFailed
        | ErrorKind::ToolFailed
        | ErrorKind::Unavailable
        | ErrorKind::Lost
        | ErrorKind::TimedOut
        | ErrorKind::Cancelled
        | ErrorKind::Internal => false,
    }
}

/// Leaves out the paths that policy denies, each judged separately, if anything remains. A plan in
/// which everything is denied stays whole, and the next stage denies it.
pub(super) fn leave_out_denied(
    call: &CallState,
    entry: &Entry,
    plan: SealedPlan,
    versions: Vec<Option<FileVersion>>,
    left_out: &mut Vec<OpsError>,
) -> Result<RemainingPlan, ToolError> {
    if judge_plan(call, entry, &plan, &[])?.verdict != Verdict::Deny {
        return Ok(RemainingPlan { plan, versions });
    }
    let mut alone = plan.clone();
    let mut refusals = Vec::with_capacity(plan.accesses().len());
    for access in plan.accesses() {
        alone = alone.with_accesses(vec![access.clone()]);
        let decision = judge_plan(call, entry, &alone, &[])?;
        refusals.push(match (access, decision.verdict) {
            (Access::Path(path), Verdict::Deny) => {
                Some(OpsError::new(ErrorKind::Denied, decision.reason.clone()).on(&path.path))
            }
            (_, Verdict::Allow | Verdict::Ask | Verdict::Deny) => None,
        });
    }
    if refusals.iter().all(Option::is_some) {
        return Ok(RemainingPlan { plan, versions });
    }
    let (mut kept, mut kept_versions) = (Vec::new(), Vec::new());
    for ((access, version), refusal) in plan.accesses().iter().zip(versions).zip(refusals) {
        if let Some(refusal) = refusal {
            left_out.push(refusal);
        } else {
            kept.push(access.clone());
            kept_versions.push(version);
        }
    }
    Ok(RemainingPlan {
        plan: plan.with_accesses(kept),
        versions: kept_versions,
    })
}
