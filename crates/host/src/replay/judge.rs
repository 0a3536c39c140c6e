//! Decides one recorded call under other rules: what was decided then, and what would be decided
//! now.

use std::sync::Arc;

use haft_contract::{
    Masks, Principal, SealedPlan,
    host::{Decision, Policy as _, Question, ReplayableCall, RuleRef, Verdict},
    ops::Tier,
};
use haft_ledger::recorded::{self, RecordedDecision, UnreadableRecord};
use haft_policy::CedarPolicy;
use haft_runtime::{
    LOOP_GUARD,
    registry::{Entry, Snapshot},
};
use serde_json::Value;

/// What the new decisions are compared with.
#[derive(Debug)]
pub enum ReplayBaseline {
    /// The recorded decisions.
    Recorded,
    /// The decisions of these rules.
    Policy(Arc<CedarPolicy>),
}

/// Decides about recorded calls.
pub struct ReplayJudge {
    /// The rules to try.
    pub policy: Arc<CedarPolicy>,
    /// What their decisions are compared with.
    pub against: ReplayBaseline,
    /// The known tools; the first snapshot that has a tool is used.
    pub tools: Vec<Arc<Snapshot>>,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReplayOutcome {
    /// The same decision.
    Same,
    /// A different decision.
    Changed(ChangedDecision),
    /// It could not be decided again.
    Not(SkipReason),
}

/// A call that is decided differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChangedDecision {
    pub(super) was: Verdict,
    pub(super) now: Verdict,
    /// The tool.
    pub(super) tool: String,
    /// The program of the command that was decisive, if there was one.
    pub(super) program: Option<String>,
    /// The rule that decides now; `None` if it is the preset.
    pub(super) rule: Option<RuleRef>,
    /// What was decisive, in words; `None` if it was the tool itself.
    pub(super) what: Option<String>,
    /// Whether a person refused it back then.
    pub(super) refused: bool,
}

/// Why a call could not be decided again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// It ended before it had a plan: an unknown name, an input that was refused.
    NoPlan,
    /// It had a plan, but ended before it was decided.
    NoDecision,
    /// No tool has that name now.
    UnknownTool,
    /// Its plan or decision cannot be read back.
    Unreadable(UnreadableRecord),
}

impl ReplayJudge {
    /// Decides one call again and compares.
    pub(super) fn judge(&self, call: ReplayableCall) -> ReplayOutcome {
        match self.compare(call) {
            Ok(Some(changed)) => ReplayOutcome::Changed(changed),
            Ok(None) => ReplayOutcome::Same,
            Err(why) => ReplayOutcome::Not(why),
        }
    }

    fn compare(&self, call: ReplayableCall) -> Result<Option<ChangedDecision>, SkipReason> {
        let body = call.planned.ok_or(SkipReason::NoPlan)?;
        let entry = body
            .get("tool")
            .and_then(Value::as_str)
            .and_then(|tool| self.entry(tool))
            .ok_or(SkipReason::UnknownTool)?;
        let plan = recorded::plan(body).map_err(SkipReason::Unreadable)?;
        let decide = |policy: &CedarPolicy| {
            let plan = masked(plan.clone(), policy, &call.principal, entry);
            policy.decide(&Question {
                principal: &call.principal,
                tool: entry.facts(),
                plan: &plan,
                grants: &[],
            })
        };
        let was = match &self.against {
            ReplayBaseline::Policy(policy) => decide(policy).verdict,
            ReplayBaseline::Recorded => {
                let decided = call.decided.ok_or(SkipReason::NoDecision)?;
                then(&recorded::decision(decided).map_err(SkipReason::Unreadable)?)
            }
        };
        let now = decide(&self.policy);
        if was == now.verdict {
            return Ok(None);
        }
        let answer = call.answered.as_ref().and_then(|body| body.get("answer"));
        let program = program(&now);
        let now = Arc::unwrap_or_clone(now);
        Ok(Some(ChangedDecision {
            was,
            now: now.verdict,
            tool: entry.key().tool.to_string(),
            program,
            what: now.access,
            rule: now.rule,
            refused: answer.and_then(Value::as_str) == Some("refused"),
        }))
    }

    fn entry(&self, key: &str) -> Option<&Arc<Entry>> {
        let (_, name) = key.split_once('/')?;
        let mut found = self.tools.iter().filter_map(|tools| tools.get(name));
        found.find(|entry| entry.key().to_string() == key)
    }
}

/// A recorded plan under these rules. Which of their paths the sandbox would hold in that workspace is not
/// known any more; where commands are sandboxed, it is taken to hold them, as it mostly does.
fn masked(
    plan: SealedPlan,
    policy: &CedarPolicy,
    principal: &Principal,
    entry: &Entry,
) -> SealedPlan {
    match plan.tier() {
        Tier::T2 | Tier::T3 => {
            let mut masks = policy.masks(principal, &entry.facts(), plan.read_from());
            masks
                .read_only
                .retain(|pattern| Masks::names_one_place(pattern));
            plan.with_masks(masks)
        }
        Tier::T1 | Tier::Host | Tier::InProcess => plan.with_masks(Masks::NONE),
    }
}

/// What the rules alone said then, without anything applied on top.
fn then(decision: &RecordedDecision) -> Verdict {
    // The loop guard only ever asks about what the rules allow.
    let by_guard = decision
        .rule
        .as_ref()
        .is_some_and(|rule| rule.source == LOOP_GUARD && rule.line.is_none());
    if by_guard {
        Verdict::Allow
    } else if decision.grants > 0 {
        // A standing approval answered for a person; the rules asked.
        Verdict::Ask
    } else {
        decision.verdict
    }
}

/// The program of the command that a decision is about.
fn program(decision: &Decision) -> Option<String> {
    let command = decision.access.as_deref()?.strip_prefix("command ")?;
    let assignment = |word: &&str| !word.contains('=');
    let word = command.split_whitespace().find(assignment)?;
    let name = word.rsplit('/').next().unwrap_or(word);
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use haft_contract::host::PolicyVersion;

    use super::*;

    fn decision(access: Option<&str>) -> Decision {
        Decision {
            verdict: Verdict::Allow,
            rule: None,
            reason: String::new(),
            access: access.map(str::to_owned),
            withheld: Vec::new(),
            policy: PolicyVersion(String::new()),
            grants: Vec::new(),
        }
    }

    #[test]
    fn a_command_is_known_by_its_program() {
        let check = |access, expect: Option<&str>| {
            assert_eq!(program(&decision(access)).as_deref(), expect);
        };
        check(Some("command git push"), Some("git"));
        check(Some("command A=1 /usr/bin/git push"), Some("git"));
        check(Some("command "), None);
        check(Some("read src/a.rs"), None);
        check(None, None);
    }

    #[test]
    fn what_the_rules_said_then_is_told_from_what_came_on_top() {
        let rule = |source: &str| RuleRef {
            text: "ask = 6".to_owned(),
            source: source.to_owned(),
            line: None,
        };
        let check = |verdict, rule, grants, expect| {
            let decision = RecordedDecision {
                verdict,
                rule,
                grants,
            };
            assert_eq!(then(&decision), expect);
        };
        check(Verdict::Ask, Some(rule("haft.toml")), 0, Verdict::Ask);
        check(Verdict::Ask, Some(rule(LOOP_GUARD)), 0, Verdict::Allow);
        check(Verdict::Allow, None, 1, Verdict::Ask);
        check(Verdict::Deny, None, 0, Verdict::Deny);
    }
}
