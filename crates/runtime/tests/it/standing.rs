//! Standing approvals: they turn an ask into an allow and nothing else, are counted with the start,
//! and a wish for one is held against the very call that caused it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::{
    CallEvent, Effects, Outcome, Principal, Terminal,
    host::{
        Clock as _, Decision, Grant, GrantBreadth, GrantId, GrantProposal, GrantRequest,
        GrantScope, GrantStore as _, GrantedWorkspace, Policy, PolicyVersion, Question, Timestamp,
        ToolFacts, Verdict, Visibility,
    },
    outcome::DeniedBy,
};
use haft_runtime::SystemClock;
use haft_testkit::{
    FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer, principal::principal,
};
use serde_json::json;

use crate::scripted::Scripted;

fn harness(policy: FixedPolicy, person: &ScriptedApprover) -> Harness {
    let tool = Scripted::echo("act").effects(Effects::CHANGES).tool();
    Harness::memory()
        .tools(vec![tool])
        .policy(policy)
        .person(person)
        .build()
}

pub(crate) fn grant(rule: &str, uses: Option<u32>) -> Grant {
    let who = principal();
    Grant {
        id: GrantId::new(),
        tenant: who.tenant.clone(),
        user: who.user.clone(),
        rule: rule.to_owned(),
        scope: GrantScope::Session(who.session.clone()),
        until: None,
        uses_left: uses,
        made_by: "ada".to_owned(),
        made_at: Timestamp(0),
        cause: None,
    }
}

fn session_wish(rule: &str) -> GrantRequest {
    GrantRequest {
        rules: vec![rule.to_owned()],
        scope: GrantScope::Session(principal().session.clone()),
        until: None,
        uses: None,
    }
}

#[tokio::test]
async fn a_grant_answers_for_the_person() {
    let person = ScriptedApprover::default();
    let harness = harness(FixedPolicy::ask_all().granting(), &person);
    let held = grant("act", None);
    harness.ledger.add(held.clone()).await.unwrap();
    let outcome = harness.succeed("act", json!({})).await;
    assert!(person.asked().is_empty());
    let started = harness
        .events
        .of(outcome.call)
        .into_iter()
        .find_map(|event| match event {
            CallEvent::Started { grants, .. } => Some(grants),
            _ => None,
        });
    assert_eq!(started, Some(vec![held.id]));
    assert_eq!(outcome.facts.decision.as_ref().unwrap().grants, [held.id]);
}

#[tokio::test]
async fn a_grant_never_opens_what_is_denied() {
    let person = ScriptedApprover::default();
    let harness = harness(FixedPolicy::deny_all().granting(), &person);
    harness.ledger.add(grant("act", None)).await.unwrap();
    let outcome = harness.fail("act", json!({})).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Policy));
}

#[tokio::test]
async fn a_counted_grant_serves_as_often_as_it_says() {
    let person = ScriptedApprover::default();
    let harness = harness(FixedPolicy::ask_all().granting(), &person);
    harness.ledger.add(grant("act", Some(2))).await.unwrap();
    harness.succeed("act", json!({"n": 1})).await;
    harness.succeed("act", json!({"n": 2})).await;
    let third = harness.fail("act", json!({"n": 3})).await;
    assert_eq!(third.facts.denied_by, Some(DeniedBy::NobodyToAsk));
}

#[tokio::test]
async fn a_counted_grant_is_not_used_twice_by_calls_side_by_side() {
    let person = ScriptedApprover::default();
    let harness = Arc::new(harness(FixedPolicy::ask_all().granting(), &person));
    harness.ledger.add(grant("act", Some(3))).await.unwrap();
    let requests = (0..50).map(|n| harness.request("act", json!({"n": n})));
    let outcomes = harness.runtime.batch(requests.collect()).await;
    let passed = outcomes
        .iter()
        .filter(|outcome| outcome.succeeded())
        .count();
    assert_eq!(passed, 3);
    for lost in outcomes.iter().filter(|outcome| !outcome.succeeded()) {
        assert_eq!(lost.terminal, Terminal::Denied);
    }
}

async fn wish(wish: GrantRequest) -> (Arc<Outcome>, usize) {
    let person = ScriptedApprover::new([ScriptedAnswer::Always(wish)]);
    let harness = harness(FixedPolicy::ask_all().granting(), &person);
    let outcome = harness.succeed("act", json!({"n": 1})).await;
    let tenant = &harness.principal.tenant;
    let kept = harness
        .ledger
        .list(tenant, SystemClock.now())
        .await
        .unwrap();
    let noted = harness.events.count("granted");
    assert_eq!(noted, kept.len());
    if !kept.is_empty() {
        harness.succeed("act", json!({"n": 2})).await;
        assert_eq!(person.asked().len(), 1, "nobody is asked again");
    }
    (outcome, kept.len())
}

#[tokio::test]
async fn a_wish_that_fits_the_call_is_kept_and_serves_the_next_one() {
    let for_the_agent = GrantRequest {
        scope: GrantScope::Agent(principal().agent.clone()),
        ..session_wish("act")
    };
    for fit in [session_wish("act"), for_the_agent] {
        let (outcome, kept) = wish(fit).await;
        assert_eq!(kept, 1);
        assert!(!outcome.text().contains("not kept"), "{}", outcome.text());
    }
}

#[tokio::test]
async fn a_wish_that_does_not_fit_counts_once_and_the_result_says_why() {
    let check = async |unfit: GrantRequest, says: &str| {
        let (outcome, kept) = wish(unfit).await;
        assert_eq!(kept, 0);
        let text = outcome.text();
        assert!(text.contains("was not kept"), "{text}");
        assert!(text.contains(says), "{text}");
    };
    check(session_wish("other"), "would still not allow this call").await;
    for (scope, says) in [
        (
            GrantScope::Session("other".parse().unwrap()),
            "its session is not the caller's",
        ),
        (
            GrantScope::Project(GrantedWorkspace {
                id: "other".parse().unwrap(),
                // Looks like the caller's own, which counts for nothing.
                shown: "/workspace".to_owned(),
            }),
            "its project is not the caller's",
        ),
        (
            GrantScope::Agent("other".parse().unwrap()),
            "its agent is not the caller's",
        ),
    ] {
        let elsewhere = GrantRequest {
            scope,
            ..session_wish("act")
        };
        check(elsewhere, says).await;
    }
    let idle = GrantRequest {
        rules: vec!["act".to_owned(), "other".to_owned()],
        ..session_wish("act")
    };
    check(idle, "`other` is not needed").await;
    let ended = GrantRequest {
        until: Some(Timestamp(1)),
        ..session_wish("act")
    };
    check(ended, "ended already").await;
    let none = GrantRequest {
        rules: Vec::new(),
        ..session_wish("act")
    };
    check(none, "does not name a rule").await;
    for (rules, says) in [(64, "is not needed"), (65, "more than 64 rules")] {
        let many = GrantRequest {
            rules: vec!["act".to_owned(); rules],
            ..session_wish("act")
        };
        check(many, says).await;
    }
}

/// Asks about everything, and proposes the tool's name as the rule.
struct Proposing(FixedPolicy);

impl Policy for Proposing {
    fn decide(&self, question: &Question<'_>) -> Arc<Decision> {
        self.0.decide(question)
    }

    fn visibility(&self, principal: &Principal, tool: &ToolFacts<'_>) -> Visibility {
        self.0.visibility(principal, tool)
    }

    fn version(&self) -> PolicyVersion {
        self.0.version()
    }

    fn proposals(&self, question: &Question<'_>) -> Vec<GrantProposal> {
        vec![GrantProposal {
            rules: vec![question.tool.key.tool.to_string()],
            breadth: GrantBreadth::Exact,
            meaning: "this tool".to_owned(),
        }]
    }
}

#[tokio::test]
async fn a_person_is_offered_the_rules_that_the_policy_proposes() {
    let person = ScriptedApprover::new([ScriptedAnswer::Approve]);
    let tool = Scripted::echo("act").effects(Effects::CHANGES).tool();
    let harness = Harness::memory()
        .tools(vec![tool])
        .policy(Proposing(FixedPolicy::ask_all()))
        .person(&person)
        .build();
    harness.succeed("act", json!({})).await;
    let asked = person.asked();
    let offered: Vec<_> = asked[0].proposals.iter().map(|one| &one.rules).collect();
    assert_eq!(offered, [&["act"]]);
}

/// The outcome of a call that had to wait for its turn, with a change while it waited.
async fn changed_while_waiting(
    policy: FixedPolicy,
    before: impl AsyncFnOnce(&Harness),
    change: impl AsyncFnOnce(&Harness),
) -> Arc<Outcome> {
    let (release, released) = tokio::sync::watch::channel(false);
    let slow = Scripted::new("act", move |_, _| {
        let mut released = released.clone();
        async move {
            let _ = released.wait_for(|released| *released).await;
            Ok(json!("done"))
        }
    })
    .effects(Effects::CHANGES)
    .accesses(|_| {
        let path = haft_contract::WorkPath::relative("a").unwrap();
        vec![haft_contract::Access::write(path)]
    });
    let harness = Arc::new(
        Harness::memory()
            .tools(vec![slow.tool()])
            .policy(policy)
            .person(&ScriptedApprover::default())
            .build(),
    );
    before(&harness).await;
    let call = |n: u32| {
        let harness = Arc::clone(&harness);
        tokio::spawn(async move { harness.call("act", json!({"n": n})).await })
    };
    let first = call(1);
    while harness.events.count("started") < 1 {
        tokio::task::yield_now().await;
    }
    let second = call(2);
    while harness.events.count("decided") < 2 {
        tokio::task::yield_now().await;
    }
    change(&harness).await;
    release.send(true).unwrap();
    assert!(first.await.unwrap().succeeded());
    second.await.unwrap()
}

#[tokio::test]
async fn a_grant_that_is_revoked_while_the_call_waits_for_its_turn_stops_it() {
    let held = grant("act", None);
    let stopped = changed_while_waiting(
        FixedPolicy::by(|_| Verdict::Ask).granting(),
        async |harness| harness.ledger.add(held.clone()).await.unwrap(),
        async |harness| {
            let tenant = harness.principal.tenant.clone();
            assert!(harness.ledger.revoke(&tenant, held.id).await.unwrap());
        },
    )
    .await;
    let by = stopped.facts.denied_by;
    assert_eq!(by, Some(DeniedBy::Expired), "{}", stopped.model_text());
}

#[tokio::test]
async fn rules_that_deny_by_now_stop_a_call_that_waited_for_its_turn() {
    let denies = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&denies);
    let policy = FixedPolicy::by(move |_| {
        if now.load(Ordering::SeqCst) {
            Verdict::Deny
        } else {
            Verdict::Allow
        }
    });
    let stopped = changed_while_waiting(
        policy,
        async |_| {},
        async |_| denies.store(true, Ordering::SeqCst),
    )
    .await;
    let by = stopped.facts.denied_by;
    assert_eq!(by, Some(DeniedBy::Policy), "{}", stopped.model_text());
}
