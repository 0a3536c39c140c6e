//! Calls that are only planned: what is said of them is what they would meet, and nothing happens.

use haft::{
    contract::{TenantId, host::Verdict},
    prelude::*,
};
use tempfile::TempDir;

fn note(path: &str) -> Value {
    json!({"path": path, "content": "hello"})
}

#[tokio::test]
async fn a_planned_call_says_what_the_call_would_meet_and_does_nothing() {
    let workspace = TempDir::new().unwrap();
    let asked = |_| async { unreachable!("nobody is asked about a plan") };
    let haft = Haft::open(workspace.path())
        .in_memory()
        .allow("write(docs/**)")
        .deny("write(*.lock)")
        .approve_with(asked)
        .on_event(|happened| panic!("{happened:?}"))
        .build()
        .await
        .unwrap();
    for (path, expect) in [
        ("docs/a.md", Verdict::Allow),
        ("src/a.rs", Verdict::Ask),
        ("Cargo.lock", Verdict::Deny),
    ] {
        let foreseen = haft.plan("write", note(path)).await.unwrap();
        assert_eq!(foreseen.decision.verdict, expect, "{path}");
        let plan = &foreseen.plan;
        assert_eq!(plan.tool().tool.as_str(), "write");
        let named = plan
            .path_accesses()
            .any(|access| access.path.as_str() == path);
        assert!(named, "{plan:?}");

        let explained = haft.explain("write", note(path)).await.unwrap();
        assert_eq!(explained.decision, *foreseen.decision);
        let strictest = explained.steps.iter().map(|step| step.verdict).max();
        assert_eq!(strictest, Some(expect), "{explained:?}");
    }
    // What never gets as far as a decision ends as the call would.
    let ended = haft.plan("write", json!({"path": 1})).await.unwrap_err();
    assert_eq!(ended.terminal, Terminal::Failed);
    let outside = haft.explain("write", note("../a")).await.unwrap_err();
    assert!(!outside.succeeded());

    let local = TenantId::local();
    let query = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    let calls = haft.ledger().calls(&local, &query).await;
    assert_eq!(calls.unwrap().len(), 0);
    let left = std::fs::read_dir(workspace.path()).unwrap().count();
    assert_eq!(left, 0);
    haft.close().await.unwrap();
}

#[tokio::test]
async fn replaced_rules_decide_and_are_explained() {
    let workspace = TempDir::new().unwrap();
    let haft = Haft::open(workspace.path()).in_memory();
    let haft = haft.build().await.unwrap();
    let before = haft.explain("write", note("a")).await.unwrap();
    assert!(before.steps.iter().any(haft::explain::Step::is_default));
    let rules = haft::RulesInCode::default().deny("write(a)");
    haft.policy().replace(rules).unwrap();
    let after = haft.explain("write", note("a")).await.unwrap();
    assert_eq!(after.decision.verdict, Verdict::Deny);
    let rule = after.steps.iter().find_map(|step| step.rule.as_ref());
    assert_eq!(rule.map(|rule| rule.text.as_str()), Some("write(a)"));
    haft.close().await.unwrap();
}
