//! Rules that are replaced while a call is on its way: it keeps the version it was opened under,
//! and the newest can stop it but never help it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    Access, CallEvent, Effects, Outcome, Terminal, WorkPath,
    access::{Command, CommandAccess},
    host::{Clock as _, Decision, Grant, GrantId, GrantStore as _, Verdict},
    ops::SandboxMode,
    outcome::DeniedBy,
};
use haft_runtime::{RulesInForce, SystemClock, WorkspaceRules};
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer, principal};
use serde_json::json;

use crate::{masks::Masking, scripted::Scripted, standing::grant};

fn rules(verdict: Verdict, version: &'static str) -> WorkspaceRules {
    let policy = FixedPolicy::by(move |_| verdict).versioned(move || version.to_owned());
    WorkspaceRules::new(Arc::new(policy))
}

/// What became of one call.
struct Ended {
    outcome: Arc<Outcome>,
    runs: usize,
    /// Every decision on record, by version and verdict.
    decided: Vec<(String, Verdict)>,
    /// The grants on record for its start.
    started_with: Vec<GrantId>,
    /// Those that are still alive afterwards.
    grants_left: Vec<Grant>,
}

impl Ended {
    fn decision(&self) -> &Decision {
        self.outcome.facts.decision.as_ref().unwrap()
    }
}

/// A call that plans under the first rules. The second are put in force by its own plan, so that
/// they come between the stages every time.
async fn replaced_while_planned(first: WorkspaceRules, second: WorkspaceRules) -> Ended {
    replaced_with_grants(first, second, &[]).await
}

async fn replaced_with_grants(
    first: WorkspaceRules,
    second: WorkspaceRules,
    grants: &[&Grant],
) -> Ended {
    replaced(first, second, grants, |_| Vec::new()).await
}

async fn replaced(
    first: WorkspaceRules,
    second: WorkspaceRules,
    grants: &[&Grant],
    accesses: impl Fn(&serde_json::Value) -> Vec<Access> + Send + Sync + 'static,
) -> Ended {
    let in_force = Arc::new(RulesInForce::new(first));
    let second = std::sync::Mutex::new(Some(second));
    let runs = Arc::new(AtomicUsize::new(0));
    let (counted, replacing) = (Arc::clone(&runs), Arc::clone(&in_force));
    let tool = Scripted::new("act", move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(json!({})) }
    });
    let tool = tool.accesses(move |input| {
        if let Some(second) = second.lock().unwrap().take() {
            replacing.replace(second);
        }
        accesses(input)
    });
    let harness = Harness::memory()
        .tools(vec![tool.tool()])
        .person(&ScriptedApprover::always(ScriptedAnswer::Approve))
        .principal(principal())
        .configure(|builder| builder.rules(in_force))
        .build();
    for grant in grants {
        harness.ledger.add(Grant::clone(grant)).await.unwrap();
    }
    let outcome = harness.call("act", json!({})).await;
    let tenant = &harness.principal.tenant;
    let left = harness.ledger.list(tenant, SystemClock.now()).await;
    let events = harness.events.of(outcome.call);
    let started = events.into_iter().find_map(|event| match event {
        CallEvent::Started { grants, .. } => Some(grants),
        _ => None,
    });
    let decided = harness
        .events
        .all()
        .into_iter()
        .filter_map(|recorded| match recorded.event {
            CallEvent::Decided { decision } => Some((decision.policy.0.clone(), decision.verdict)),
            _ => None,
        });
    Ended {
        outcome,
        runs: runs.load(Ordering::Relaxed),
        decided: decided.collect(),
        started_with: started.unwrap_or_default(),
        grants_left: left.unwrap(),
    }
}

#[tokio::test]
async fn a_newer_version_that_allows_does_not_help_a_call_that_its_own_denies() {
    let ended = replaced_while_planned(rules(Verdict::Deny, "one"), rules(Verdict::Allow, "two"));
    let ended = ended.await;
    assert_eq!(ended.outcome.facts.denied_by, Some(DeniedBy::Policy));
    assert_eq!(ended.decided, [("one".to_owned(), Verdict::Deny)]);
    assert_eq!(ended.runs, 0);
}

#[tokio::test]
async fn a_newer_version_that_denies_stops_a_call_before_it_starts_and_is_on_record() {
    let ended = replaced_while_planned(rules(Verdict::Allow, "one"), rules(Verdict::Deny, "two"));
    let ended = ended.await;
    assert_eq!(ended.outcome.facts.denied_by, Some(DeniedBy::Policy));
    assert_eq!(ended.decision().policy.0, "two");
    let (one, two) = (
        ("one".to_owned(), Verdict::Allow),
        ("two".to_owned(), Verdict::Deny),
    );
    assert_eq!(ended.decided, [one, two]);
    assert_eq!(ended.runs, 0);
}

#[tokio::test]
async fn a_newer_version_that_asks_ends_the_call_to_be_repeated() {
    let ended = replaced_while_planned(rules(Verdict::Allow, "one"), rules(Verdict::Ask, "two"));
    let ended = ended.await;
    assert_eq!(ended.outcome.terminal, Terminal::Denied);
    let text = ended.outcome.model_text();
    assert!(text.contains("the rules changed"), "{text}");
    assert_eq!(ended.decision().policy.0, "two");
    assert_eq!(ended.runs, 0);
}

fn asking(version: &'static str) -> WorkspaceRules {
    let policy = FixedPolicy::ask_all().versioned(move || version.to_owned());
    WorkspaceRules::new(Arc::new(policy.granting()))
}

#[tokio::test]
async fn a_newer_version_that_asks_lets_a_call_run_that_a_grant_covers_and_decides_it() {
    let grant = grant("act", Some(1));
    let first = rules(Verdict::Allow, "one");
    let ended = replaced_with_grants(first, asking("two"), &[&grant]).await;
    assert!(ended.outcome.succeeded(), "{}", ended.outcome.model_text());
    assert_eq!(ended.runs, 1);
    let decisions = ["one", "two"].map(|version| (version.to_owned(), Verdict::Allow));
    assert_eq!(ended.decided, decisions);
    let decision = ended.decision();
    assert_eq!(
        (decision.policy.0.as_str(), &*decision.grants),
        ("two", &[grant.id][..])
    );
    assert_eq!(ended.started_with, [grant.id]);
    // Its start has used up the grant.
    assert!(ended.grants_left.is_empty());
}

#[tokio::test]
async fn a_grant_that_only_the_newest_version_knows_does_not_help_against_its_own() {
    let grant = grant("act", None);
    let first = rules(Verdict::Deny, "one");
    let ended = replaced_with_grants(first, asking("two"), &[&grant]).await;
    assert_eq!(ended.outcome.facts.denied_by, Some(DeniedBy::Policy));
    assert_eq!((ended.decision().policy.0.as_str(), ended.runs), ("one", 0));
    assert_eq!(ended.grants_left.len(), 1);
}

#[tokio::test]
async fn a_grant_for_something_else_does_not_let_an_overtaken_call_run() {
    let grant = grant("another", None);
    let first = rules(Verdict::Allow, "one");
    let ended = replaced_with_grants(first, asking("two"), &[&grant]).await;
    assert_eq!(ended.outcome.facts.denied_by, Some(DeniedBy::Expired));
    assert_eq!((ended.decision().policy.0.as_str(), ended.runs), ("two", 0));
}

#[tokio::test]
async fn a_call_that_both_versions_allow_runs_under_its_own() {
    let ended = replaced_while_planned(rules(Verdict::Allow, "one"), rules(Verdict::Allow, "two"));
    let ended = ended.await;
    assert!(ended.outcome.succeeded(), "{}", ended.outcome.model_text());
    assert_eq!(ended.decision().policy.0, "one");
    assert_eq!((ended.decided.len(), ended.runs), (1, 1));
}

#[tokio::test]
async fn a_yes_given_under_one_version_is_void_under_another_that_would_not_have_asked() {
    let ended = replaced_while_planned(rules(Verdict::Ask, "one"), rules(Verdict::Allow, "two"));
    let ended = ended.await;
    assert_eq!(ended.outcome.terminal, Terminal::Denied);
    let text = ended.outcome.model_text();
    assert!(text.contains("the approval is void"), "{text}");
    assert_eq!(ended.runs, 0);
}

fn commands(_: &serde_json::Value) -> Vec<Access> {
    vec![Access::Command(CommandAccess {
        command: Command::Shell("true".to_owned()),
        cwd: WorkPath::root(),
        stays: false,
    })]
}

/// A grant is given for commands that do not see what deny rules hide, and the plan was made before
/// these rules were.
#[tokio::test]
async fn a_grant_does_not_let_a_command_run_that_sees_what_the_newest_version_hides() {
    let grant = grant("act", None);
    let asks = FixedPolicy::ask_all().granting();
    let hiding = Masking(asks.versioned(|| "two".to_owned()));
    let hiding = WorkspaceRules::new(Arc::new(hiding));
    let ended = replaced(rules(Verdict::Allow, "one"), hiding, &[&grant], commands).await;
    let text = ended.outcome.model_text();
    assert!(text.contains("they keep more from commands"), "{text}");
    assert_eq!(ended.outcome.facts.denied_by, Some(DeniedBy::Expired));
    assert_eq!((ended.decision().policy.0.as_str(), ended.runs), ("two", 0));
    // Where the newest version hides nothing, the same command runs.
    let ended = replaced(
        rules(Verdict::Allow, "one"),
        asking("two"),
        &[&grant],
        commands,
    )
    .await;
    assert!(ended.outcome.succeeded(), "{}", ended.outcome.model_text());
}

#[tokio::test]
async fn a_command_planned_without_a_sandbox_does_not_run_once_the_rules_demand_one() {
    let demanding = || rules(Verdict::Allow, "two").sandbox("act", SandboxMode::Full);
    let ended = replaced(rules(Verdict::Allow, "one"), demanding(), &[], commands).await;
    let text = ended.outcome.model_text();
    assert!(text.contains("a stronger sandbox"), "{text}");
    assert_eq!(ended.runs, 0);
    let ended = replaced(
        rules(Verdict::Allow, "one"),
        rules(Verdict::Allow, "two"),
        &[],
        commands,
    );
    assert!(ended.await.outcome.succeeded());
}

#[tokio::test]
async fn tools_are_shown_and_hidden_by_the_version_in_force() {
    let hiding =
        |hide: Verdict| WorkspaceRules::new(Arc::new(FixedPolicy::per_tool([("act", hide)])));
    let in_force = Arc::new(RulesInForce::new(hiding(Verdict::Allow)));
    let harness = Harness::memory()
        .tools(vec![
            Scripted::echo("act").effects(Effects::READ_ONLY).tool(),
        ])
        .configure(|builder| builder.rules(Arc::clone(&in_force)))
        .build();
    let mut changes = in_force.changes();
    let shown = || harness.runtime.tools_for(&harness.principal).len();
    assert_eq!(shown(), 1);
    in_force.replace(hiding(Verdict::Deny));
    assert_eq!(shown(), 0);
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    in_force.replace(hiding(Verdict::Allow));
    assert_eq!(shown(), 1);
    assert!(changes.has_changed().unwrap());
}
