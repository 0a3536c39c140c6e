//! A thousand calls while the rules are replaced a hundred times: each is decided by one version,
//! which the record names, from the verdict to the rule's text.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use haft::{PolicySource, contract::outcome::DeniedBy, prelude::*};
use haft_contract::host::{Grant, GrantId, GrantScope, Ledger as _, Policy as _, Timestamp};

use crate::place::Place;

const VERSIONS: usize = 100;
const CALLS_EACH: usize = 10;

/// The rules of a version: a verdict over each file that no other version words this way.
fn source(version: usize) -> PolicySource {
    PolicySource::new(name(version), text(version))
}

fn name(version: usize) -> String {
    format!("v{version}.toml")
}

fn text(version: usize) -> String {
    let lists = [
        ("allow", "ask", "deny"),
        ("ask", "deny", "allow"),
        ("deny", "allow", "ask"),
    ];
    let (a, b, c) = lists[version % 3];
    let rule = |file: &str| format!("write({{{file},{file}-{version}}})");
    let lines = [(a, rule("a")), (b, rule("b")), (c, rule("c"))];
    let lines = lines.map(|(list, rule)| format!("{list} = [\"{rule}\"]\n"));
    format!("[policy]\npreset = \"careful\"\n{}", lines.concat())
}

/// What a version's rule about a file says.
fn verdict(version: usize, file: &str) -> &'static str {
    let place = ["a", "b", "c"].iter().position(|name| *name == file);
    let lists = [
        ["allow", "ask", "deny"],
        ["ask", "deny", "allow"],
        ["deny", "allow", "ask"],
    ];
    lists[version % 3][place.unwrap()]
}

/// Whether a decision is what one version says about a file, and rests on that version alone.
fn check_decision(decision: &Value, look: usize, version: usize, file: &str) {
    let granted = decision["grants"].as_array().is_some_and(|g| !g.is_empty());
    let expect = match verdict(version, file) {
        "ask" if granted => {
            assert_eq!(file, "b", "{decision}");
            "allow"
        }
        // The grant counts for whoever was overtaken too.
        "ask" if file == "b" => panic!("look {look}: {decision}"),
        verdict => {
            assert!(!granted, "{decision}");
            verdict
        }
    };
    assert_eq!(decision["verdict"], expect, "{file}: {decision}");
    let rule = &decision["rule"];
    let text = rule["text"].as_str().unwrap();
    if granted {
        // It rests on a question that this version asks, and on the grant alone.
        assert_eq!(text, "write(b)", "{decision}");
        return;
    }
    assert_eq!(rule["source"], format!("v{version}.toml"), "{decision}");
    assert!(text.contains(&format!("{file}-{version}}}")), "{decision}");
    let reason = decision["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("v{version}.toml")), "{decision}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_calls_during_a_hundred_rule_changes_are_decided_by_one_version_each() {
    let place = Place::new();
    let haft = place
        .haft()
        .policy_text(name(0), text(0))
        .approve_with(|request| async move { request.approve("ada") })
        .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
        .build()
        .await
        .unwrap();
    let haft = Arc::new(haft);
    // Turns *ask* into *allow* for one of the files, under whichever version asks about it.
    let who = haft.principal();
    let grant = Grant {
        id: GrantId::new(),
        tenant: who.tenant.clone(),
        user: who.user.clone(),
        rule: "write(b)".to_owned(),
        scope: GrantScope::Agent(who.agent.clone()),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: Timestamp(0),
        cause: None,
    };
    haft.ledger().grants().add(grant).await.unwrap();
    let first = haft.policy().current();
    let mut versions = HashMap::from([(first.version().0, 0)]);
    let (mut on_their_way, mut calls) = (VecDeque::new(), Vec::new());
    for version in 1..=VERSIONS {
        for number in 0..CALLS_EACH {
            let haft = Arc::clone(&haft);
            on_their_way.push_back(tokio::spawn(async move {
                let file = ["a", "b", "c"][number % 3];
                let input = json!({"path": file, "content": format!("{version} {number}")});
                (file, haft.call("write", input).await)
            }));
        }
        // With the calls above on their way.
        let now = haft.policy().replace(&[source(version)]).unwrap();
        assert_eq!(versions.insert(now.0, version), None, "{version} is new");
        while on_their_way.len() > 2 * CALLS_EACH {
            calls.push(on_their_way.pop_front().unwrap().await.unwrap());
        }
    }
    for call in on_their_way {
        calls.push(call.await.unwrap());
    }
    let mut ended: HashMap<&'static str, usize> = HashMap::new();
    let mut overtaken = 0;
    assert_eq!(calls.len(), 1000);
    for (file, outcome) in calls {
        let events = haft.ledger().events(&who.tenant, outcome.call).await;
        let events = events.unwrap();
        let decided: Vec<_> = events
            .iter()
            .filter(|event| event.kind == "decided")
            .map(|event| &event.body)
            .collect();
        assert!((1..=2).contains(&decided.len()), "{decided:?}");
        overtaken += decided.len() - 1;
        for (look, decision) in decided.iter().enumerate() {
            let version = versions[decision["policy"].as_str().unwrap()];
            check_decision(decision, look, version, file);
        }
        // What happened is what the last decision says, and the outcome names the same one.
        let last = decided.last().unwrap();
        let facts = outcome.facts.decision.as_ref().unwrap();
        assert_eq!(last["policy"], facts.policy.0);
        let by = outcome.facts.denied_by;
        match (last["verdict"].as_str().unwrap(), outcome.terminal) {
            // A question was answered with yes.
            ("allow" | "ask", Terminal::Succeeded) => {}
            ("deny", Terminal::Denied) => assert_eq!(by, Some(DeniedBy::Policy)),
            // Overtaken by a version that voids the question or would ask another.
            ("ask", Terminal::Denied) => assert_eq!(by, Some(DeniedBy::Expired)),
            other => panic!("{other:?}: {}", outcome.model_text()),
        }
        *ended.entry(facts.verdict.as_str()).or_default() += 1;
    }
    assert_eq!(ended.len(), 3, "every verdict occurred: {ended:?}");
    println!("{ended:?}, {overtaken} overtaken by newer rules");
}

#[tokio::test]
async fn rules_that_cannot_be_used_leave_the_old_ones_in_force() {
    let place = Place::with(&[("a", "a")]);
    let rules = |text: &str| PolicySource::new("new.toml", text);
    let haft = place
        .haft()
        .policy_text("old.toml", "[policy]\nallow = [\"read\"]\n")
        .build()
        .await
        .unwrap();
    let before = haft.policy().current().version();
    for broken in ["[policy", "[policy]\ndeny = [\"raed\"]\n"] {
        let refused = haft.policy().replace(&[rules(broken)]).unwrap_err();
        assert!(refused.to_string().contains("new.toml"), "{refused}");
        assert_eq!(haft.policy().current().version(), before);
        assert!(haft.call("read", json!({"path": "a"})).await.succeeded());
    }
    let denying = rules("[policy]\ndeny = [\"read\"]\n");
    let now = haft.policy().replace(&[denying]).unwrap();
    assert_ne!(now, before);
    let denied = haft.call("read", json!({"path": "a"})).await;
    assert_eq!(denied.terminal, Terminal::Denied);
    assert_eq!(denied.facts.decision.as_ref().unwrap().policy, now);
    assert!(
        !haft
            .tools()
            .iter()
            .any(|tool| tool.key().tool.as_str() == "read")
    );
}
