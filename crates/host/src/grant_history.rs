//! Finds in the record what a person keeps approving, and which standing approval would save the
//! question. Decides with the current rules and grants, so nothing is suggested that is already
//! allowed or cannot be granted.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use haft_contract::{
    Principal, TenantId, WorkspaceId,
    host::{
        Grant, GrantBreadth, GrantProposal, History, LedgerError, Policy as _, Question,
        ReplayableCall, Timestamp,
    },
};
use haft_ledger::recorded;
use haft_policy::CedarPolicy;
use haft_runtime::registry::Snapshot;
use serde::Serialize;
use serde_json::Value;

use crate::suggest::add_command;

/// How often something must have been approved to be worth a suggestion.
pub const MIN_APPROVALS: usize = 5;
/// A narrower rule is preferred if it covers at least this percentage of what the widest covers.
const MOSTLY_PERCENT: usize = 80;
/// The most suggestions returned.
const MAX_SUGGESTIONS: usize = 10;
/// The most approvals that are read, newest first.
const MAX_APPROVALS: usize = 10_000;
/// How many recorded calls are read at once.
const BATCH: usize = 500;

/// A standing approval that would have saved questions.
#[derive(Debug, Serialize)]
pub struct Suggestion {
    /// The rules to grant.
    pub rules: Vec<String>,
    /// What they allow, in words.
    pub meaning: String,
    /// How many approvals it would have saved.
    pub approved: usize,
    /// The command that accepts it.
    pub command: String,
}

/// What is needed to decide about recorded calls again.
pub struct ApprovalHistory {
    /// The rules in force.
    pub policy: Arc<CedarPolicy>,
    /// The registered tools.
    pub tools: Arc<Snapshot>,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What is granted already.
    pub grants: Vec<Grant>,
    /// Who approved.
    pub principal: Arc<Principal>,
}

impl ApprovalHistory {
    /// The rules that would have saved most of the questions that this person answered with yes
    /// here and that would be asked again.
    pub async fn suggestions(
        &self,
        history: &dyn History,
        tenant: &TenantId,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<Suggestion>, LedgerError> {
        let mut approvals = Vec::new();
        let mut after = None;
        loop {
            let batch = history.replayable(tenant, since, after, BATCH).await?;
            let Some(last) = batch.last() else {
                break;
            };
            after = Some(last.call.position);
            let batch = batch.into_iter();
            approvals.extend(batch.filter_map(|call| self.proposals(call, now)));
            let excess = approvals.len().saturating_sub(MAX_APPROVALS);
            approvals.drain(..excess);
        }
        Ok(group(&approvals))
    }

    /// What could be granted for a call that a person approved; `None` if nothing could.
    fn proposals(&self, call: ReplayableCall, now: Timestamp) -> Option<Vec<GrantProposal>> {
        let answer = call.answered.as_ref()?.get("answer")?.as_str()?;
        if answer != "approved" || call.principal.user != self.principal.user {
            return None;
        }
        let body = call.planned?;
        let (_, name) = body.get("tool").and_then(Value::as_str)?.split_once('/')?;
        let entry = self.tools.get(name)?;
        // Nothing is suggested from a plan that cannot be read back completely, such as a command
        // with a secret.
        let plan = recorded::plan(body).ok()?;
        if *plan.workspace_id() != self.workspace || *plan.tool() != *entry.key() {
            return None;
        }
        let holding: Vec<Grant> = self
            .grants
            .iter()
            .filter(|grant| grant.holds(&call.principal, plan.workspace_id(), now))
            .cloned()
            .collect();
        let proposals = self.policy.proposals(&Question {
            principal: &call.principal,
            tool: entry.facts(),
            plan: &plan,
            grants: &holding,
        });
        (!proposals.is_empty()).then_some(proposals)
    }
}

/// Groups approvals by the narrowest rules that most of them share, largest group first.
fn group(approvals: &[Vec<GrantProposal>]) -> Vec<Suggestion> {
    let mut left: Vec<&Vec<GrantProposal>> = approvals.iter().collect();
    let mut suggestions = Vec::new();
    while suggestions.len() < MAX_SUGGESTIONS {
        let Some((chosen, approved)) = best(&left) else {
            break;
        };
        left.retain(|proposals| !proposals.iter().any(|known| known.rules == chosen.rules));
        suggestions.push(Suggestion {
            command: add_command(&chosen.rules),
            rules: chosen.rules.clone(),
            meaning: chosen.meaning.clone(),
            approved,
        });
    }
    suggestions
}

/// The proposal to make next, and how many approvals it covers.
fn best<'p>(left: &[&'p Vec<GrantProposal>]) -> Option<(&'p GrantProposal, usize)> {
    let mut counted: BTreeMap<&[String], (&GrantProposal, usize)> = BTreeMap::new();
    for proposal in left.iter().copied().flatten() {
        let (_, count) = counted.entry(&proposal.rules).or_insert((proposal, 0));
        *count += 1;
    }
    let most = counted.values().map(|(_, count)| *count).max()?;
    let enough = MIN_APPROVALS.max(most * MOSTLY_PERCENT / 100);
    counted
        .into_values()
        .filter(|(_, count)| *count >= enough)
        .min_by_key(|(proposal, count)| (width(proposal), Reverse(*count)))
}

/// The sort key for width: the breadth, then the number of words, where fewer are wider.
fn width(proposal: &GrantProposal) -> (GrantBreadth, Reverse<usize>) {
    let words = proposal.rules.iter().map(|rule| rule.split(' ').count());
    (proposal.breadth, Reverse(words.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposals(rules: &[(GrantBreadth, &str)]) -> Vec<GrantProposal> {
        let proposal = |(breadth, rule): &(GrantBreadth, &str)| GrantProposal {
            rules: vec![(*rule).to_owned()],
            breadth: *breadth,
            meaning: String::new(),
        };
        rules.iter().map(proposal).collect()
    }

    fn cargo_test(what: &str) -> Vec<GrantProposal> {
        proposals(&[
            (GrantBreadth::Exact, &format!("bash(cargo test {what})")),
            (GrantBreadth::Prefix, "bash(cargo test *)"),
        ])
    }

    fn suggested(approvals: &[Vec<GrantProposal>]) -> Vec<(String, usize)> {
        let suggestions = group(approvals);
        suggestions
            .into_iter()
            .map(|suggestion| (suggestion.rules.join(" + "), suggestion.approved))
            .collect()
    }

    #[test]
    fn what_is_always_the_same_is_suggested_word_for_word() {
        let mut approvals: Vec<_> = (0..9).map(|_| cargo_test("-q")).collect();
        approvals.push(cargo_test("once"));
        assert_eq!(
            suggested(&approvals),
            [("bash(cargo test -q)".to_owned(), 9)]
        );
    }

    #[test]
    fn what_differs_is_suggested_by_what_it_has_in_common() {
        let mut approvals: Vec<_> = (0..41).map(|n| cargo_test(&format!("t{n}"))).collect();
        let touch = || proposals(&[(GrantBreadth::Exact, "bash(touch a)")]);
        approvals.extend((0..MIN_APPROVALS).map(|_| touch()));
        assert_eq!(
            suggested(&approvals),
            [
                ("bash(cargo test *)".to_owned(), 41),
                ("bash(touch a)".to_owned(), MIN_APPROVALS)
            ]
        );
    }

    #[test]
    fn what_was_approved_a_few_times_is_not_suggested() {
        let few: Vec<_> = (1..MIN_APPROVALS).map(|_| cargo_test("-q")).collect();
        assert_eq!(suggested(&few), []);
        assert_eq!(suggested(&[]), []);
    }
}
