//! `haft grants suggest`: reads the record for what this person approves again and again, and says
//! which standing approval would save the question. Decides with today's rules and grants, so what
//! is allowed already, or cannot be granted, is never suggested.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use clap::Args;
use haft_contract::{
    Principal, ToolKey, WorkspaceId,
    host::{
        Grant, GrantBreadth, GrantProposal, History as _, Policy as _, Question, ReplayableCall,
    },
};
use haft_host::{HostBuilder, WorkspaceSource, suggest::add_command};
use haft_ledger::{SqliteLedger, recorded};
use haft_policy::CedarPolicy;
use haft_runtime::registry::Snapshot;
use serde::Serialize;
use serde_json::Value;

use super::{App, Exit, Stop, now, open, tenant};
use crate::{
    ago::Ago,
    args::IdentityArgs,
    terminal::{Format, Page, Style},
};

/// How often something must have been approved to be worth a suggestion.
const MIN_APPROVALS: usize = 5;
/// A narrower rule is preferred where it stands for at least this much of what the widest stands
/// for, in percent.
const MOSTLY_PERCENT: usize = 80;
/// The most suggestions that are made.
const MAX_SUGGESTIONS: usize = 10;
/// The most approvals that are looked at, the newest of the time.
const MAX_APPROVALS: usize = 10_000;
/// How many recorded calls are read at once.
const BATCH: usize = 500;

#[derive(Debug, Args)]
pub(super) struct SuggestArgs {
    /// How far back to look
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: Ago,
}

/// One suggestion.
#[derive(Debug, Serialize)]
struct Suggestion {
    rules: Vec<String>,
    meaning: String,
    /// How many approvals it would have saved.
    approved: usize,
    /// What accepts it.
    command: String,
}

/// Everything a recorded call is decided about again with.
struct Today {
    policy: Arc<CedarPolicy>,
    tools: Arc<Snapshot>,
    workspace: WorkspaceId,
    grants: Vec<Grant>,
    principal: Arc<Principal>,
}

/// Runs the command.
pub(super) async fn run(args: &SuggestArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    let operations = WorkspaceSource::of(&settings).open().await?;
    let workspace = operations.workspace_id();
    let assembly = HostBuilder::to_look(settings)?.assemble_for_lint().await?;
    assembly.mount_to_look()?;
    let ledger = open(app).await?;
    let principal = IdentityArgs::default().principal(&app.env)?;
    let grants = super::living(&ledger).await?;
    let today = Today {
        policy: Arc::clone(&assembly.policy),
        tools: assembly.runtime.registry().snapshot(),
        workspace,
        grants,
        principal,
    };
    let approvals = approvals(&ledger, args.since, &today).await?;
    super::close(&ledger).await?;
    let suggestions = group(&approvals);
    if app.output.format() == Format::Json {
        app.output.json(&suggestions)?;
        return Ok(Exit::Ok);
    }
    if suggestions.is_empty() {
        let text = format!(
            "nothing to suggest: nothing that could be granted was approved {MIN_APPROVALS} times or \
             more since then"
        );
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for suggestion in &suggestions {
        page = page
            .text(format!("you approved {} ", what(&suggestion.rules)))
            .styled(Style::Strong, format!("{} times", suggestion.approved))
            .text(": allow it in this workspace?")
            .end()
            .styled(Style::Dim, "  means  ")
            .text(&suggestion.meaning)
            .end()
            .styled(Style::Dim, "  run    ")
            .styled(Style::Strong, &suggestion.command)
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// The proposals for everything this person approved here and would be asked about again.
async fn approvals(
    ledger: &SqliteLedger,
    since: Ago,
    today: &Today,
) -> Result<Vec<Vec<GrantProposal>>, Stop> {
    let since = since.before(now());
    let tenant = tenant()?;
    let mut approvals = Vec::new();
    let mut after = None;
    loop {
        let batch = ledger.replayable(&tenant, since, after, BATCH).await;
        let batch = batch.map_err(|error| Stop::ledger(&error))?;
        let Some(last) = batch.last() else {
            break;
        };
        after = Some(last.call.position);
        approvals.extend(batch.into_iter().filter_map(|call| today.proposals(call)));
        let excess = approvals.len().saturating_sub(MAX_APPROVALS);
        approvals.drain(..excess);
    }
    Ok(approvals)
}

impl Today {
    /// What could be granted for a call that a person approved; `None` where that is nothing.
    fn proposals(&self, call: ReplayableCall) -> Option<Vec<GrantProposal>> {
        let answer = call.answered.as_ref()?.get("answer")?.as_str()?;
        if answer != "approved" || call.principal.user != self.principal.user {
            return None;
        }
        let body = call.planned?;
        let (_, name) = body.get("tool").and_then(Value::as_str)?.split_once('/')?;
        let entry = self.tools.get(name)?;
        let action = |_: &ToolKey, name: &str| {
            let mut known = entry.spec().actions.iter().map(|action| action.name);
            known.find(|known| *known == name)
        };
        // Nothing is suggested from what cannot be read back whole, such as a command with a secret.
        let plan = recorded::plan(body, action).ok()?;
        if plan.workspace_id != self.workspace || plan.tool != *entry.key() {
            return None;
        }
        let holding: Vec<Grant> = self
            .grants
            .iter()
            .filter(|grant| grant.holds(&call.principal, &plan.workspace_id, now()))
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

/// Groups approvals by the narrowest rules that most of them have in common, largest group first.
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

/// The proposal to make next, and how many approvals it stands for.
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

/// How wide a proposal is: its breadth, and within that fewer words are wider.
fn width(proposal: &GrantProposal) -> (GrantBreadth, Reverse<usize>) {
    let words = proposal.rules.iter().map(|rule| rule.split(' ').count());
    (proposal.breadth, Reverse(words.sum()))
}

/// Rules as a person would name what they allow: `cargo test …`.
fn what(rules: &[String]) -> String {
    let named: Vec<String> = rules
        .iter()
        .map(|rule| {
            let inner = rule
                .strip_prefix("bash(")
                .and_then(|rule| rule.strip_suffix(')'));
            let text = inner.unwrap_or(rule);
            let text = text.strip_suffix(" *").map(|words| format!("{words} …"));
            format!(
                "`{}`",
                text.unwrap_or_else(|| inner.unwrap_or(rule).to_owned())
            )
        })
        .collect();
    named.join(" and ")
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

    #[test]
    fn rules_are_named_as_people_name_commands() {
        let rules = |rules: &[&str]| {
            rules
                .iter()
                .map(|rule| (*rule).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(what(&rules(&["bash(cargo test *)"])), "`cargo test …`");
        assert_eq!(
            what(&rules(&["bash(a)", "write(src/**)"])),
            "`a` and `write(src/**)`"
        );
    }
}
