//! The two hook points: a changed call is validated, planned and decided again.

use haft_contract::{
    Access, BoxFuture, Content, ErrorKind, Outcome, Principal, SealedPlan, Terminal, WorkPath,
    host::{BeforeDecide, Hook, Verdict},
};
use haft_testkit::{FixedPolicy, Harness};
use serde_json::{Value, json};

use crate::scripted::Scripted;

struct Rewrite(Value);

impl Hook for Rewrite {
    fn before_decide<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a SealedPlan,
    ) -> BoxFuture<'a, BeforeDecide> {
        Box::pin(async { BeforeDecide::Rewrite(self.0.clone()) })
    }

    fn after_run<'a>(&'a self, _: &'a SealedPlan, outcome: &'a mut Outcome) -> BoxFuture<'a, ()> {
        Box::pin(async {
            outcome.content.push(Content::text("seen by the hook"));
            outcome.terminal = Terminal::Succeeded;
        })
    }
}

fn reader() -> Scripted {
    Scripted::echo("reader")
        .schema(json!({
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "additionalProperties": false,
        }))
        .accesses(|input| {
            vec![Access::read(
                WorkPath::relative(input["path"].as_str().unwrap()).unwrap(),
            )]
        })
}

#[tokio::test]
async fn a_rewritten_call_is_planned_and_decided_again() {
    let policy = FixedPolicy::by(|question| {
        let secret = |path: &WorkPath| path.as_str() == "secret";
        if question
            .plan
            .path_accesses()
            .any(|access| secret(&access.path))
        {
            Verdict::Deny
        } else {
            Verdict::Allow
        }
    });
    let run = async |to: Value| {
        let harness = Harness::memory()
            .tools(vec![reader().tool()])
            .policy(policy.clone())
            .hook(Rewrite(to))
            .build();
        harness.call("reader", json!({"path": "harmless"})).await
    };
    let outcome = run(json!({"path": "other"})).await;
    assert_eq!(outcome.structured, Some(json!({"path": "other"})));
    assert!(outcome.text().contains("seen by the hook"));
    let outcome = run(json!({"path": "secret"})).await;
    assert_eq!(
        outcome.terminal,
        Terminal::Denied,
        "a hook cannot get around policy"
    );
    let outcome = run(json!({"no_such": 1})).await;
    assert_eq!(
        outcome.error.as_ref().unwrap().kind,
        ErrorKind::InvalidInput,
        "nor validation"
    );
}

#[tokio::test]
async fn a_hook_cannot_change_how_a_call_ended() {
    let failing = Scripted::new("failing", |_, _| async {
        Err(haft_contract::ToolError::new(ErrorKind::Io, "broken"))
    });
    let harness = Harness::memory()
        .tools(vec![failing.tool()])
        .hook(Rewrite(json!({})))
        .build();
    assert_eq!(
        harness.fail("failing", json!({})).await.terminal,
        Terminal::Failed
    );
}

#[tokio::test]
async fn hooks_that_never_agree_end_the_call() {
    let harness = Harness::memory()
        .tools(vec![reader().tool()])
        .hook(Rewrite(json!({"path": "a"})))
        .hook(Rewrite(json!({"path": "b"})))
        .build();
    let outcome = harness.fail("reader", json!({"path": "x"})).await;
    assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::Internal);
}
