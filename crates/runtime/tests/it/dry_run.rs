//! `Runtime::plan`: the stages up to the decision, with nothing run, recorded, asked or told.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    Access, BoxFuture, CallEvent, Effects, ErrorKind, Label, Principal, ProviderId, SealedPlan,
    WorkPath,
    host::{BeforeDecide, CallQuery, Hook, Ledger as _, Timestamp, Verdict},
};
use haft_testkit::{
    FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer, harness::HarnessBuilder,
};
use serde_json::json;

use crate::scripted::Scripted;

/// `touch` writes the file it is given; how often it ran.
fn touching() -> (HarnessBuilder, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let tool = Scripted::new("touch", move |input, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(input) }
    })
    .effects(Effects::CHANGES)
    .schema(json!({
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": false,
    }))
    .accesses(|input| {
        let path = WorkPath::relative(input["path"].as_str().unwrap()).unwrap();
        vec![Access::write(path)]
    });
    (Harness::memory().tools(vec![tool.tool()]), ran)
}

/// Allows, asks or denies by the name of the file.
fn by_name() -> FixedPolicy {
    FixedPolicy::by(|question| {
        let mut paths = question.plan.path_accesses();
        match paths.next().map(|access| access.path.as_str()) {
            Some("allowed") => Verdict::Allow,
            Some("asked") => Verdict::Ask,
            _ => Verdict::Deny,
        }
    })
    .withholding(&["**/secret"])
}

#[tokio::test]
async fn a_dry_run_runs_nothing_and_leaves_no_trace() {
    let (builder, ran) = touching();
    let person = ScriptedApprover::always(ScriptedAnswer::Approve);
    let harness = builder.policy(by_name()).person(&person).build();
    for path in ["allowed", "asked", "denied"] {
        let request = harness.request("touch", json!({ "path": path }));
        harness.runtime.plan(request).await.unwrap();
    }
    let unknown = harness.request("tuch", json!({"path": "allowed"}));
    harness.runtime.plan(unknown).await.unwrap_err();

    assert_eq!(ran.load(Ordering::SeqCst), 0, "nothing ran");
    assert!(harness.events.all().is_empty(), "no listener heard of it");
    assert!(person.asked().is_empty(), "nobody was asked");
    let history = harness.ledger.history().unwrap();
    let tenant = &harness.principal.tenant;
    let all = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    assert!(history.calls(tenant, &all).await.unwrap().is_empty());
    assert!(harness.ledger.open_calls().is_empty());
    let approvals = harness.ledger.approvals();
    let open = approvals.pending(tenant, Timestamp(0), 10).await;
    assert!(open.unwrap().is_empty(), "no question is on record");
    assert_eq!(harness.runtime.in_flight(), 0);
}

#[tokio::test]
async fn a_dry_run_says_what_a_call_would_be_decided() {
    let (builder, _) = touching();
    let person = ScriptedApprover::always(ScriptedAnswer::Approve);
    let harness = builder.policy(by_name()).person(&person).build();
    for (path, verdict) in [
        ("allowed", Verdict::Allow),
        ("asked", Verdict::Ask),
        ("denied", Verdict::Deny),
    ] {
        let input = json!({ "path": path });
        let request = harness.request("touch", input.clone());
        let dry = harness.runtime.plan(request).await.unwrap();
        let outcome = harness.call("touch", input).await;
        assert_eq!(dry.decision.verdict, verdict);
        assert_eq!(Some(&dry.decision), outcome.facts.decision.as_ref());
        let events = harness.events.of(outcome.call);
        let planned = events.iter().find_map(|event| match event {
            CallEvent::Planned { plan } => Some(SealedPlan::clone(plan)),
            _ => None,
        });
        let planned = planned.unwrap();
        assert_eq!(*dry.plan, planned, "the plan a call is held to");
        assert_eq!(dry.decision.withheld, ["**/secret"]);
    }
}

#[tokio::test]
async fn a_dry_run_ends_as_a_call_would_that_is_never_decided() {
    let (builder, _) = touching();
    let harness = builder.build();
    for (tool, input, kind) in [
        ("tuch", json!({"path": "a"}), ErrorKind::UnknownTool),
        ("touch", json!({"file": "a"}), ErrorKind::InvalidInput),
    ] {
        let request = harness.request(tool, input.clone());
        let dry = harness.runtime.plan(request).await.unwrap_err();
        let outcome = harness.fail(tool, input).await;
        assert_eq!(dry.error, outcome.error);
        assert_eq!(dry.terminal, outcome.terminal);
        assert_eq!(dry.error.as_ref().unwrap().kind, kind);
    }
}

/// Sends every call elsewhere, and refuses what already goes to `nowhere`.
struct Elsewhere;

impl Hook for Elsewhere {
    fn before_decide<'a>(
        &'a self,
        _: &'a Principal,
        plan: &'a SealedPlan,
    ) -> BoxFuture<'a, BeforeDecide> {
        Box::pin(async move {
            match plan.input()["path"].as_str() {
                Some("nowhere") => BeforeDecide::Deny("there is no way there".to_owned()),
                _ => BeforeDecide::Rewrite(json!({"path": "asked"})),
            }
        })
    }
}

#[tokio::test]
async fn hooks_change_a_dry_run_as_they_change_a_call() {
    let (builder, _) = touching();
    let harness = builder.policy(by_name()).hook(Elsewhere).build();
    let request = harness.request("touch", json!({"path": "allowed"}));
    let dry = harness.runtime.plan(request).await.unwrap();
    assert_eq!(*dry.plan.input(), json!({"path": "asked"}));
    assert_eq!(dry.decision.verdict, Verdict::Ask);
    let request = harness.request("touch", json!({"path": "nowhere"}));
    let refused = harness.runtime.plan(request).await.unwrap_err();
    assert_eq!(refused.error.as_ref().unwrap().kind, ErrorKind::Denied);
}

#[tokio::test]
async fn a_dry_run_counts_for_neither_labels_nor_the_loop_guard() {
    let reader = Scripted::echo("search");
    let harness = Harness::memory()
        .tools(vec![Scripted::echo("same").tool()])
        .configure(|builder| {
            let web = ProviderId::mounted("web").unwrap();
            builder.provider(web, vec![reader.tool()])
        })
        .build();
    for _ in 0..10 {
        let request = harness.request("same", json!({}));
        let dry = harness.runtime.plan(request).await.unwrap();
        assert_eq!(dry.decision.verdict, Verdict::Allow, "never repeated");
        let request = harness.request("search", json!({}));
        let dry = harness.runtime.plan(request).await.unwrap();
        assert!(dry.plan.read_from().is_empty(), "it has read from nothing");
    }
    harness.succeed("search", json!({})).await;
    let request = harness.request("same", json!({}));
    let dry = harness.runtime.plan(request).await.unwrap();
    let web = "mcp:web".parse::<Label>().unwrap();
    assert!(dry.plan.read_from().contains(&web), "a call has");
    for _ in 0..6 {
        harness.call("same", json!({})).await;
    }
    let request = harness.request("same", json!({}));
    let dry = harness.runtime.plan(request).await.unwrap();
    assert_eq!(dry.decision.verdict, Verdict::Ask, "the loop guard's count");
}
