//! Breaks a decision down: what was judged, which rules were considered, which one won, and which
//! default applied if none did. For `haft explain` and `haft policy check`.

use std::sync::Arc;

use haft_contract::{
    AgentId,
    host::{Decision, Policy as _, Question, RuleRef, Verdict},
};

use crate::{
    engine::{CedarPolicy, JudgedQuestion},
    facts::{Action, ReadQuestion},
    preset::Preset,
};

/// Why a question got its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The answer.
    pub decision: Decision,
    /// Every judgement, in order.
    pub steps: Vec<Step>,
}

/// One judgement in an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The agent it was judged for: the one that asked, or one that started it.
    pub agent: AgentId,
    /// The preset it was judged under.
    pub preset: Preset,
    /// The judged action.
    pub action: Action,
    /// What it is done to; absent for the tool as a whole.
    pub access: Option<String>,
    /// The answer.
    pub verdict: Verdict,
    /// The rule that decided; absent when the preset did.
    pub rule: Option<RuleRef>,
    /// The reason in one sentence.
    pub reason: String,
    /// Every rule that could have applied, with its answer.
    pub considered: Vec<(Verdict, RuleRef)>,
}

impl CedarPolicy {
    /// Decides a question and says why, step by step.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let asked = ReadQuestion::new(question);
        let judged = self
            .judgements(&asked)
            .map(|judged| self.step(question, judged));
        let steps = self
            .unmatched_step(question)
            .into_iter()
            .chain(judged)
            .collect();
        Explanation {
            decision: Arc::unwrap_or_clone(self.decide(question)),
            steps,
        }
    }

    fn unmatched_step(&self, question: &Question<'_>) -> Option<Step> {
        let unmatched = self.unmatched(question)?;
        let agent = &question.principal.agent;
        Some(Step {
            agent: agent.clone(),
            preset: self
                .presets
                .of(question.principal, agent)
                .into_iter()
                .next()?,
            action: Action::Use,
            access: None,
            verdict: Verdict::Deny,
            rule: Some(unmatched.rule.clone()),
            reason: unmatched.reason,
            considered: vec![(Verdict::Deny, unmatched.rule)],
        })
    }

    fn step(&self, question: &Question<'_>, judged: JudgedQuestion<'_>) -> Step {
        let considered = judged
            .considered
            .iter()
            .filter_map(|number| self.rules.get(*number))
            .map(|rule| (rule.verdict, rule.origin.clone()))
            .collect();
        Step {
            agent: judged.agent.clone(),
            preset: judged.preset,
            action: judged.item.action,
            access: judged.item.text(),
            verdict: judged.judgement.verdict,
            rule: self.rule_ref(&judged.judgement.cause),
            reason: self.reason(question, &judged),
            considered,
        }
    }
}

impl Step {
    /// Whether no rule applied, so that the preset's default did.
    pub fn is_default(&self) -> bool {
        self.rule.is_none()
    }
}
