//! Decides again with grants, after rules and presets said that a person must be asked.

use std::sync::Arc;

use haft_contract::{
    AgentId,
    host::{Decision, Grant, GrantScope, Question, RuleRef, Timestamp, Verdict},
};

use crate::{
    engine::{CedarPolicy, JudgedQuestion},
    facts::{CallFacts, InWords, ReadQuestion},
};

/// How many characters of a grant's id people see: the timestamp part.
const SHORT_ID: usize = 13;

/// The caller checks whether a grant has ended; no clock is read here.
const ANY_TIME: Timestamp = Timestamp(i64::MIN);

impl CedarPolicy {
    /// The decision with grants on a question that would ask a person without them.
    pub(crate) fn apply_grants(
        &self,
        question: &Question<'_>,
        without: Arc<Decision>,
    ) -> Arc<Decision> {
        let holding: Vec<&Grant> = question
            .grants
            .iter()
            .filter(|grant| grant.holds(question.principal, question.plan.workspace_id(), ANY_TIME))
            .collect();
        if holding.is_empty() {
            return without;
        }
        let asked = ReadQuestion::new(question);
        let mut open = Vec::new();
        for judged in self.judgements(&asked) {
            match judged.judgement.verdict {
                Verdict::Allow => {}
                Verdict::Ask => open.push(judged),
                Verdict::Deny => return Arc::new(self.decision(question, &judged)),
            }
        }
        // The tool itself comes last: by then its accesses are known to be covered.
        open.sort_by_key(|judged| judged.item.access.is_none());
        let mut used: Vec<&Grant> = Vec::new();
        let mut reason = None;
        for judged in open {
            let Some(grant) = self.covering(&holding, &used, question, &judged) else {
                return Arc::new(self.decision(question, &judged));
            };
            reason.get_or_insert_with(|| {
                let what = InWords(judged.item, question.tool.key.tool.as_str());
                let access = judged.item.text();
                (format!("{} allows {what}", rule_ref(grant)), access)
            });
            if !used.iter().any(|known| known.id == grant.id) {
                used.push(grant);
            }
        }
        let (Some(first), Some((reason, access))) = (used.first(), reason) else {
            return without;
        };
        Arc::new(Decision {
            verdict: Verdict::Allow,
            rule: Some(rule_ref(first)),
            reason,
            access,
            grants: used.iter().map(|grant| grant.id).collect(),
            ..Arc::unwrap_or_clone(without)
        })
    }

    /// The grant that covers what was judged, preferring one already used here, then one without a
    /// use count. Whatever covers the accesses of a plan also covers the use of the tool, if they
    /// are known to be all that it does.
    fn covering<'g>(
        &self,
        holding: &[&'g Grant],
        used: &[&'g Grant],
        question: &Question<'_>,
        judged: &JudgedQuestion<'_>,
    ) -> Option<&'g Grant> {
        // The person who said "always" did not know what would be read.
        if judged.judgement.labelled {
            return None;
        }
        let covers = |grant: &&&'g Grant| {
            speaks_for(grant, judged.agent)
                && self
                    .grants
                    .read(&grant.rule)
                    .is_some_and(|rule| rule.covers(question, judged))
        };
        let call = CallFacts::of(question);
        let is_use = judged.item.access.is_none() && call.trusted && call.accounted;
        let fresh = holding.iter().filter(covers);
        let best = used
            .iter()
            .find(|grant| (is_use && speaks_for(grant, judged.agent)) || covers(grant));
        best.or_else(|| fresh.min_by_key(|grant| grant.uses_left.is_some()))
            .copied()
    }
}

/// A grant for one agent does not apply to the agents that started it.
fn speaks_for(grant: &Grant, agent: &AgentId) -> bool {
    match &grant.scope {
        GrantScope::Session(_) | GrantScope::Project(_) => true,
        GrantScope::Agent(named) => named == agent,
    }
}

fn rule_ref(grant: &Grant) -> RuleRef {
    let id: String = grant.id.to_string().chars().take(SHORT_ID).collect();
    RuleRef {
        text: grant.rule.clone(),
        source: format!("grant {id}"),
        line: None,
    }
}
