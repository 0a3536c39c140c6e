//! Scopes, then policy, over every access of the plan.

use std::{panic::AssertUnwindSafe, sync::Arc};

use haft_contract::{
    CallEvent, ErrorKind, ToolError,
    host::{Decision, Question, Verdict},
    identity::Scope,
    outcome::DeniedBy,
};

use super::{Halt, Planned};

/// A call that policy allows, or wants a person to look at.
pub struct Decided {
    pub(super) planned: Planned,
    /// What a person is asked about; absent when policy allows the call.
    pub(super) asks: Option<Decision>,
}

/// Decides about the plan. A denial ends the call here.
pub fn decide(mut planned: Planned) -> Result<Decided, Halt> {
    if let Some(scope) = missing_scope(&planned) {
        let error = ToolError::new(
            ErrorKind::MissingScope,
            format!("the credential lacks the scope `{scope}` that the tool needs"),
        )
        .hint("ask the operator for a credential with that scope");
        return Err(planned.luggage.halt(error));
    }
    let question = Question {
        principal: &planned.luggage.principal,
        tool: planned.entry.facts(),
        plan: &planned.plan,
        grants: &[],
    };
    let policy = &planned.luggage.runtime.policy;
    // Fail closed: a policy engine that breaks down has not allowed anything.
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| policy.decide(&question)));
    let Ok(decision) = decided else {
        let error = ToolError::new(ErrorKind::Denied, "the policy could not be evaluated");
        return Err(planned.luggage.halt(error));
    };
    planned.luggage.recording.note(CallEvent::Decided {
        decision: decision.clone(),
    });
    if !decision.withheld.is_empty() {
        Arc::make_mut(&mut planned.plan)
            .withheld
            .clone_from(&decision.withheld);
    }
    let facts = &mut planned.luggage.facts;
    facts.tier = Some(planned.plan.tier);
    facts.backend = Some(planned.plan.backend.clone());
    match decision.verdict {
        Verdict::Allow => {
            facts.decision = Some(decision);
            Ok(Decided {
                planned,
                asks: None,
            })
        }
        Verdict::Ask => {
            facts.decision = Some(decision.clone());
            Ok(Decided {
                planned,
                asks: Some(decision),
            })
        }
        Verdict::Deny => {
            facts.decision = Some(decision.clone());
            let error = ToolError::new(ErrorKind::Denied, decision.reason);
            Err(planned.luggage.halt(error).denied_by(DeniedBy::Policy))
        }
    }
}

fn missing_scope(planned: &Planned) -> Option<&Scope> {
    let has = &planned.luggage.principal.scopes;
    planned
        .entry
        .spec()
        .required_scopes
        .iter()
        .find(|scope| !has.contains(*scope))
}
