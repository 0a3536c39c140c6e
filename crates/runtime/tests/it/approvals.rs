//! Promises 1 and 2: a plan before any effect, and what was approved is what runs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use haft_contract::{
    Access, Effects, Terminal, WorkPath,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
    ops::{Expected, WriteFile, WriteMode},
    outcome::DeniedBy,
};
use haft_runtime::Limits;
use haft_testkit::{
    FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer, harness::HarnessBuilder,
};
use serde_json::{Value, json};

use crate::scripted::Scripted;

fn path(text: &str) -> WorkPath {
    WorkPath::relative(text).unwrap()
}

/// A tool that overwrites one file, and a count of how often it ran.
fn overwriting(runs: &Arc<AtomicUsize>) -> HarnessBuilder {
    let runs = Arc::clone(runs);
    let tool = Scripted::new("put", move |input: Value, cx| {
        let runs = Arc::clone(&runs);
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let target = path(input["path"].as_str().unwrap());
            let write = WriteFile {
                bytes: b"new",
                expected: Expected::Anything,
                mode: WriteMode::AsItIs,
            };
            cx.files().write(&target, write).await?;
            Ok(json!("done"))
        }
    })
    .effects(Effects::REPLACES)
    .accesses(|input| vec![Access::write(path(input["path"].as_str().unwrap()))]);
    Harness::memory()
        .tools(vec![tool.tool()])
        .policy(FixedPolicy::ask_all())
}

async fn check(
    answer: ScriptedAnswer,
    terminal: Terminal,
    by: Option<DeniedBy>,
    expect_runs: usize,
) {
    let runs = Arc::default();
    let person = ScriptedApprover::new([answer]);
    let limits = Limits {
        approval_wait: Duration::from_millis(50),
        ..Limits::default()
    };
    let harness = overwriting(&runs).person(&person).limits(limits).build();
    let outcome = harness.call("put", json!({"path": "a"})).await;
    assert_eq!(outcome.terminal, terminal, "{}", outcome.model_text());
    assert_eq!(outcome.facts.denied_by, by);
    assert_eq!(runs.load(Ordering::SeqCst), expect_runs);
    assert_eq!(person.asked().len(), 1);
    assert_eq!(harness.tree.bytes("a").is_some(), expect_runs == 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_yes_to_this_very_plan_lets_a_call_pass() {
    check(ScriptedAnswer::Approve, Terminal::Succeeded, None, 1).await;
    check(
        ScriptedAnswer::Refuse("no".into()),
        Terminal::Denied,
        Some(DeniedBy::Person),
        0,
    )
    .await;
    check(
        ScriptedAnswer::Nobody,
        Terminal::Denied,
        Some(DeniedBy::NobodyToAsk),
        0,
    )
    .await;
    check(
        ScriptedAnswer::Expire,
        Terminal::Denied,
        Some(DeniedBy::Expired),
        0,
    )
    .await;
    check(
        ScriptedAnswer::NeverAnswer,
        Terminal::Denied,
        Some(DeniedBy::Expired),
        0,
    )
    .await;
    check(
        ScriptedAnswer::WrongDigest,
        Terminal::Denied,
        Some(DeniedBy::Person),
        0,
    )
    .await;
}

#[tokio::test]
async fn the_person_sees_the_plan_that_will_run() {
    let runs = Arc::default();
    let person = ScriptedApprover::new([ScriptedAnswer::Approve]);
    let harness = overwriting(&runs).person(&person).build();
    harness.tree.put("dir/real", "old");
    harness.tree.put_symlink("link", "dir/real");
    harness.succeed("put", json!({"path": "link"})).await;
    let asked = person.asked();
    let access = asked[0].plan.path_accesses().next().unwrap();
    assert_eq!(access.path, path("link"));
    assert_eq!(access.resolved, Some(path("dir/real")));
    assert_eq!(*asked[0].plan.input(), json!({"path": "link"}));
    assert_eq!(harness.tree.text("dir/real"), "new");
}

/// Changes the workspace while the person looks, then says yes.
pub(crate) struct Meanwhile<F>(pub(crate) F);

impl<F: Fn() + Send + Sync + 'static> Approver for Meanwhile<F> {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        (self.0)();
        request.approve("person")
    }
}

async fn void_after(change: impl Fn(&haft_testkit::memory::MemoryTree) + Send + Sync + 'static) {
    let runs = Arc::default();
    let (operations, tree) = haft_testkit::memory::operations();
    tree.put("a", "old");
    tree.put("elsewhere", "old");
    let seen = tree.clone();
    let harness = overwriting(&runs)
        .configure(|builder| builder.operations(operations))
        .approver(Meanwhile(move || change(&seen)))
        .build();
    let outcome = harness.fail("put", json!({"path": "a"})).await;
    assert_eq!(outcome.terminal, Terminal::Denied);
    assert!(
        outcome.model_text().contains("the approval is void"),
        "{}",
        outcome.model_text()
    );
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(tree.text("elsewhere"), "old");
}

#[tokio::test]
async fn sl_10_a_target_that_changes_after_approval_voids_it() {
    void_after(|tree| tree.put("a", "changed")).await;
    void_after(|tree| tree.delete("a")).await;
    void_after(|tree| {
        tree.delete("a");
        tree.put_symlink("a", "elsewhere");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_clock_stops_while_a_person_is_asked() {
    struct Slow;
    impl Approver for Slow {
        async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
            tokio::time::sleep(Duration::from_mins(5)).await;
            request.approve("person")
        }
    }
    let runs = Arc::default();
    let harness = overwriting(&runs).approver(Slow).build();
    let request = harness
        .request("put", json!({"path": "a"}))
        .timeout(Duration::from_secs(5));
    let outcome = harness.runtime.call(request).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    assert_eq!(outcome.facts.timings.asked, Duration::from_mins(5));
}
