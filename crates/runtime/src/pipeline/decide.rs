//! Checks scopes, then policy, for every access of the plan; where policy says ask, checks once
//! more with the standing approvals that hold for this principal.

use std::{panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{
    CallEvent, ErrorKind, SealedPlan, ToolError,
    host::{Decision, Grant, Question, Verdict},
    identity::Scope,
    outcome::DeniedBy,
};

use super::{HaltedCall, PlannedCall, call_state::CallState};
use crate::{
    grant_finder::PolicyGrantFinder,
    outgoing::{Counting, holds_secret, is_composed_request},
    registry::Entry,
    rules::WorkspaceRules,
};

/// A call that policy allows, or wants a person to approve.
pub struct DecidedCall {
    pub(super) planned: PlannedCall,
    pub(super) answer: PolicyAnswer,
}

/// Policy's answer, if it is not a denial.
pub(super) enum PolicyAnswer {
    /// The call is allowed; by the rules alone if there are no grants.
    Allowed(Vec<Grant>),
    /// A person is asked.
    Asks(Arc<Decision>),
}

/// What a call would do and whether it may, without running it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The plan that the call would have to keep to.
    pub plan: Arc<SealedPlan>,
    /// The decision about it, which may be a denial.
    pub decision: Arc<Decision>,
    /// What was changed in the input on the way, as in [`haft_contract::outcome::Facts::coercions`].
    pub coercions: Vec<String>,
}

struct JudgedPlan {
    planned: PlannedCall,
    decision: Arc<Decision>,
    /// The standing approvals the decision rests on.
    grants: Vec<Grant>,
}

/// Decides about the plan. A denial ends the call here.
pub async fn decide(planned: PlannedCall) -> Result<DecidedCall, HaltedCall> {
    let JudgedPlan {
        mut planned,
        decision,
        grants,
    } = judge_call(planned, Counting::Use).await?;
    let facts = &mut planned.call.facts;
    facts.tier = Some(planned.plan.tier());
    facts.backend = Some(planned.plan.backend().clone());
    match decision.verdict {
        Verdict::Allow => {
            facts.decision = Some(decision);
            let answer = PolicyAnswer::Allowed(grants);
            Ok(DecidedCall { planned, answer })
        }
        Verdict::Ask => {
            facts.decision = Some(Arc::clone(&decision));
            let answer = PolicyAnswer::Asks(decision);
            Ok(DecidedCall { planned, answer })
        }
        Verdict::Deny => Err(denied(planned, decision)),
    }
}

/// Returns what would be decided. A denial is a result here and does not end the call.
pub(super) async fn foresee(planned: PlannedCall) -> Result<DryRun, HaltedCall> {
    let JudgedPlan {
        planned, decision, ..
    } = judge_call(planned, Counting::Look).await?;
    Ok(DryRun {
        coercions: planned.call.facts.coercions,
        plan: planned.plan,
        decision,
    })
}

/// Scopes, secrets on their way out, rules, standing approvals, the loop guard and the outbound
/// budget, in that order.
async fn judge_call(
    mut planned: PlannedCall,
    counting: Counting,
) -> Result<JudgedPlan, HaltedCall> {
    if let Some(scope) = missing_scope(&planned) {
        let error = ToolError::new(
            ErrorKind::MissingScope,
            format!("the credential lacks the scope `{scope}` that the tool needs"),
        )
        .hint("ask the operator for a credential with that scope");
        return Err(planned.call.halt(error));
    }
    if let Some(error) = secret_on_its_way(&planned) {
        return Err(planned.call.halt(error).denied_by(DeniedBy::Policy));
    }
    let (decision, grants) = match with_grants(&planned).await {
        Ok(decided) => decided,
        Err(error) => return Err(planned.call.halt(error)),
    };
    let decision = planned.call.weigh(&planned.plan, decision);
    let decision = planned
        .call
        .weigh_outgoing(&planned.plan, counting, decision);
    planned.call.recording.note(CallEvent::Decided {
        decision: Arc::clone(&decision),
    });
    planned.call.withheld = match decision.withheld.as_slice() {
        // Allocates nothing, unlike the conversion of an empty list.
        [] => Arc::default(),
        withheld => withheld.into(),
    };
    Ok(JudgedPlan {
        planned,
        decision,
        grants,
    })
}

/// What policy says about a call, given these standing approvals.
pub(super) fn judge(planned: &PlannedCall, grants: &[Grant]) -> Result<Arc<Decision>, ToolError> {
    judge_plan(&planned.call, &planned.entry, &planned.plan, grants)
}

/// What the call's own version of the rules and the newest say about it.
struct BothAnswers {
    own: Arc<Decision>,
    /// `None` if the call's own version is the newest.
    newest: Option<Arc<Decision>>,
}

impl BothAnswers {
    /// The stricter answer; of two equal ones that of the newest version.
    fn stricter(self) -> Arc<Decision> {
        match self.newest {
            Some(newest) if newest.verdict >= self.own.verdict => newest,
            Some(_) | None => self.own,
        }
    }

    /// Whether one of them rests on this grant.
    fn rests_on(&self, grant: &Grant) -> bool {
        let mut answers = std::iter::once(&self.own).chain(&self.newest);
        answers.any(|answer| answer.grants.contains(&grant.id))
    }
}

/// The same for the plan as it would be sealed now, since the session may have read more. If the
/// rules were replaced meanwhile, the stricter of the call's own version and the newest decides.
pub(super) fn judge_now(
    planned: &PlannedCall,
    grants: &[Grant],
) -> Result<Arc<Decision>, ToolError> {
    let newest = planned.call.workspace.rules.current();
    Ok(judge_by_both(planned, &newest, grants)?.stricter())
}

/// The same with every standing approval that holds now, and those it rests on. Each version is
/// judged with what holds for the question that it asks.
pub(super) async fn judge_now_with_grants(
    planned: &PlannedCall,
) -> Result<(Arc<Decision>, Vec<Grant>), ToolError> {
    let call = &planned.call;
    let newest = call.workspace.rules.current();
    let mut grants = holding(planned, &call.rules).await;
    if !Arc::ptr_eq(&newest, &call.rules) {
        for grant in holding(planned, &newest).await {
            if grants.iter().all(|known| known.id != grant.id) {
                grants.push(grant);
            }
        }
    }
    let answers = judge_by_both(planned, &newest, &grants)?;
    grants.retain(|grant| answers.rests_on(grant));
    Ok((answers.stricter(), grants))
}

fn judge_by_both(
    planned: &PlannedCall,
    newest: &Arc<WorkspaceRules>,
    grants: &[Grant],
) -> Result<BothAnswers, ToolError> {
    let PlannedCall {
        call, entry, plan, ..
    } = planned;
    let read_from = call.read_from();
    let read_more;
    let plan = if read_from == *plan.read_from() {
        &**plan
    } else {
        read_more = SealedPlan::clone(plan).with_read_from(read_from);
        &read_more
    };
    let own = judge_plan(call, entry, plan, grants)?;
    let newest = if Arc::ptr_eq(newest, &call.rules) {
        None
    } else {
        Some(judge_by(newest, question(call, entry, plan, grants))?)
    };
    Ok(BothAnswers { own, newest })
}

/// The same for any plan of the call.
pub(super) fn judge_plan(
    call: &CallState,
    entry: &Entry,
    plan: &SealedPlan,
    grants: &[Grant],
) -> Result<Arc<Decision>, ToolError> {
    judge_by(&call.rules, question(call, entry, plan, grants))
}

fn judge_by(rules: &WorkspaceRules, question: Question<'_>) -> Result<Arc<Decision>, ToolError> {
    let policy = &rules.policy;
    // Fail closed: a policy engine that panics has not allowed anything.
    std::panic::catch_unwind(AssertUnwindSafe(|| policy.decide(&question)))
        .map_err(|_| ToolError::new(ErrorKind::Denied, "the policy could not be evaluated"))
}

fn question<'a>(
    call: &'a CallState,
    entry: &'a Entry,
    plan: &'a SealedPlan,
    grants: &'a [Grant],
) -> Question<'a> {
    Question {
        principal: &call.principal,
        tool: entry.facts(),
        plan,
        grants,
    }
}

/// Ends a call that policy denies.
pub(super) fn denied(mut planned: PlannedCall, decision: Arc<Decision>) -> HaltedCall {
    let error = ToolError::new(ErrorKind::Denied, decision.reason.clone());
    planned.call.facts.decision = Some(decision);
    planned.call.halt(error).denied_by(DeniedBy::Policy)
}

/// The effective decision, and the standing approvals it rests on. Grants are read only for a call
/// that would ask.
async fn with_grants(planned: &PlannedCall) -> Result<(Arc<Decision>, Vec<Grant>), ToolError> {
    let decision = judge(planned, &[])?;
    if decision.verdict != Verdict::Ask {
        return Ok((decision, Vec::new()));
    }
    let mut grants = holding(planned, &planned.call.rules).await;
    if grants.is_empty() {
        return Ok((decision, grants));
    }
    let decision = judge(planned, &grants)?;
    grants.retain(|grant| decision.grants.contains(&grant.id));
    Ok((decision, grants))
}

/// The standing approvals that hold for the caller now and can matter to this call under a version
/// of the rules. If they cannot be read, there are none.
pub(super) async fn holding(planned: &PlannedCall, rules: &WorkspaceRules) -> Vec<Grant> {
    let call = &planned.call;
    let now = call.engine.clock.now();
    let store = call.engine.ledger.grants();
    let finder = PolicyGrantFinder {
        policy: &*rules.policy,
        question: question(call, &planned.entry, &planned.plan, &[]),
    };
    let workspace = planned.plan.workspace_id();
    let held = store
        .holding(&call.principal, workspace, now, &finder)
        .await;
    held.unwrap_or_else(|error| {
        tracing::warn!(%error, "grants could not be read; a person is asked instead");
        Vec::new()
    })
}

/// Why a request would carry a secret to a host that the agent wrote out itself. Where a tool needs
/// one, it is given by reference and never passes through a model.
fn secret_on_its_way(planned: &PlannedCall) -> Option<ToolError> {
    let PlannedCall { call, plan, .. } = planned;
    if !is_composed_request(plan) || !holds_secret(plan.input(), &*call.engine.ledger) {
        return None;
    }
    let message = "the request would carry the value of a secret that Haft keeps to a host";
    let error = ToolError::new(ErrorKind::Denied, message);
    Some(error.hint(
        "leave the value out; a tool that needs it for a host gets it from the operator's configuration",
    ))
}

fn missing_scope(planned: &PlannedCall) -> Option<&Scope> {
    let has = &planned.call.principal.scopes;
    planned
        .entry
        .spec()
        .required_scopes
        .iter()
        .find(|scope| !has.contains(*scope))
}
