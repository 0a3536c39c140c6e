//! Which calls are in flight and how far they have got, and a shutdown that gives them a grace.

use std::{sync::Arc, time::Duration};

use haft_contract::{CallId, Effects, ErrorKind, Outcome, Terminal, ToolError};
use haft_runtime::CallStage;
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};

use crate::scripted::Scripted;

const SECOND: Duration = Duration::from_secs(1);

/// A tool that runs for as long as its input says.
fn sleeper(policy: FixedPolicy) -> (Harness, ScriptedApprover) {
    let tool = Scripted::new("sleeper", |input: Value, cx| async move {
        let seconds = input["seconds"].as_u64().unwrap();
        tokio::select! {
            () = tokio::time::sleep(SECOND * u32::try_from(seconds).unwrap()) => Ok(json!("slept")),
            () = cx.cancel().cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "stopped")),
        }
    })
    .effects(Effects::CHANGES);
    let person = ScriptedApprover::default();
    let harness = Harness::memory()
        .tools(vec![tool.tool()])
        .policy(policy)
        .person(&person)
        .build();
    (harness, person)
}

/// Starts a call, and returns once it is where it stays for a while.
async fn begin(
    harness: &Harness,
    seconds: u64,
    stage: CallStage,
) -> (CallId, JoinHandle<Arc<Outcome>>) {
    let request = harness.request("sleeper", json!({"seconds": seconds}));
    let (call, runtime) = (request.id, harness.runtime.clone());
    let task = tokio::spawn(async move { runtime.call(request).await });
    let at = |listed: &haft_runtime::InFlightCall| listed.call == call && listed.stage == stage;
    while !harness.runtime.calls_in_flight().iter().any(at) {
        tokio::task::yield_now().await;
    }
    (call, task)
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_is_listed_with_who_asks_and_how_far_it_is() {
    let (harness, _) = sleeper(FixedPolicy::allow_all());
    assert_eq!(harness.runtime.calls_in_flight(), []);
    let (call, task) = begin(&harness, 5, CallStage::Run).await;
    let listed = harness.runtime.calls_in_flight();
    let [listed] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!((listed.call, listed.tool.as_str()), (call, "sleeper"));
    assert_eq!(
        listed.principal,
        harness.request("sleeper", json!({})).principal
    );
    // A plan is no call.
    let planned = harness.request("sleeper", json!({"seconds": 1}));
    harness.runtime.plan(planned).await.unwrap();
    assert_eq!(harness.runtime.calls_in_flight().len(), 1);
    assert!(task.await.unwrap().succeeded());
    assert_eq!(harness.runtime.calls_in_flight(), []);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_person_is_listed_as_that() {
    let (harness, person) = sleeper(FixedPolicy::ask_all());
    person.then(ScriptedAnswer::NeverAnswer);
    let (call, task) = begin(&harness, 1, CallStage::Approve).await;
    let (report, flushed) = harness.runtime.shut_down_within(SECOND).await;
    flushed.unwrap();
    let [stopped] = report.stopped.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((stopped.call, stopped.stage), (call, CallStage::Approve));
    assert_eq!(task.await.unwrap().terminal, Terminal::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_calls_end_within_the_grace_and_says_what_it_stopped() {
    let (harness, _) = sleeper(FixedPolicy::allow_all());
    let (_, soon) = begin(&harness, 3, CallStage::Run).await;
    let (late, too_late) = begin(&harness, 60, CallStage::Run).await;
    let began = Instant::now();
    let runtime = harness.runtime.clone();
    let shutdown = tokio::spawn(async move { runtime.shut_down_within(SECOND * 10).await });
    tokio::task::yield_now().await;
    let refused = harness.fail("sleeper", json!({"seconds": 1})).await;
    assert!(
        refused.model_text().contains("shutting down"),
        "{refused:?}"
    );
    let (report, flushed) = shutdown.await.unwrap();
    flushed.unwrap();
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!((report.finished, report.left), (1, 0));
    let [stopped] = report.stopped.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((stopped.call, stopped.tool.as_str()), (late, "sleeper"));
    assert!(soon.await.unwrap().succeeded());
    assert_eq!(too_late.await.unwrap().terminal, Terminal::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_the_grace_when_nothing_is_left() {
    let (harness, _) = sleeper(FixedPolicy::allow_all());
    let (_, soon) = begin(&harness, 3, CallStage::Run).await;
    let began = Instant::now();
    let (report, flushed) = harness.runtime.shut_down_within(SECOND * 3600).await;
    flushed.unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!((report.finished, report.stopped.len()), (1, 0));
    assert!(soon.await.unwrap().succeeded());
}
