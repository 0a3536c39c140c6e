//! Deadlines per tool, per action, per call, and the hard maximum; mistake 6.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Access, Deadline, Effects, Terminal, WorkPath,
    ops::{Expected, WriteFile, WriteMode},
};
use haft_runtime::{Limits, registry::Timeouts};
use haft_testkit::Harness;
use serde_json::json;
use tokio::time::Instant;

use crate::scripted::Scripted;

const SECOND: Duration = Duration::from_secs(1);

fn harness() -> Harness {
    timed(Timeouts::new())
}

fn timed(timeouts: Timeouts) -> Harness {
    let sleeper = Scripted::new("sleeper", |_, cx| async move {
        cx.cancel().cancelled().await;
        Err(haft_contract::ToolError::new(
            haft_contract::ErrorKind::Cancelled,
            "stopped",
        ))
    })
    .spec(|spec| {
        spec.deadline(Deadline::new(SECOND * 30, SECOND * 60))
            .action("slow", Deadline::new(SECOND * 300, SECOND * 300))
    });
    let limits = Limits {
        hard_deadline: SECOND * 200,
        ..Limits::default()
    };
    Harness::memory()
        .tools(vec![sleeper.tool()])
        .limits(limits)
        .configure(|builder| builder.timeouts(timeouts))
        .build()
}

#[tokio::test(start_paused = true)]
async fn a_deadline_comes_from_the_tool_the_action_the_input_or_the_caller() {
    let harness = harness();
    let check = async |arguments: serde_json::Value, caller: Option<Duration>, expect: Duration| {
        let mut request = harness.request("sleeper", arguments);
        request.timeout = caller;
        let started = Instant::now();
        let outcome = harness.runtime.call(request).await;
        assert_eq!(outcome.terminal, Terminal::TimedOut);
        assert_eq!(started.elapsed().as_secs(), expect.as_secs());
    };
    check(json!({}), None, SECOND * 30).await;
    check(json!({"timeout_ms": 45_000}), None, SECOND * 45).await;
    check(json!({"timeout_ms": 999_000}), None, SECOND * 60).await;
    check(json!({}), Some(SECOND * 5), SECOND * 5).await;
    check(json!({"action": "slow"}), None, SECOND * 200).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_sets_the_time_of_every_tool_of_one_or_of_an_action() {
    let check = async |timeouts: &Timeouts, arguments: serde_json::Value, expect: u64| {
        let harness = timed(timeouts.clone());
        let started = Instant::now();
        let outcome = harness.fail("sleeper", arguments).await;
        assert_eq!(outcome.terminal, Terminal::TimedOut);
        assert_eq!(started.elapsed().as_secs(), expect);
    };
    let all = Timeouts::new().default_of_all(SECOND * 7);
    check(&all, json!({}), 7).await;
    // An action with a time of its own keeps it, here up to the hard limit.
    check(&all, json!({"action": "slow"}), 200).await;
    // An input still asks for its own time, and the maximum stays.
    check(&all, json!({"timeout_ms": 45_000}), 45).await;
    check(&all, json!({"timeout_ms": 999_000}), 60).await;
    let one = all.of("sleeper", SECOND * 3);
    check(&one, json!({}), 3).await;
    check(&one, json!({"action": "slow"}), 200).await;
    let action = one.of("sleeper.slow", SECOND * 90);
    check(&action, json!({}), 3).await;
    check(&action, json!({"action": "slow"}), 90).await;
    // Of another tool it says nothing.
    check(&Timeouts::new().of("other", SECOND), json!({}), 30).await;
    check(&Timeouts::new().of("sleeper", SECOND * 100), json!({}), 60).await;
}

/// Mistake 6: a timeout that resolves to nothing and so looks like success.
#[tokio::test(start_paused = true)]
async fn mistake_06_a_timeout_is_an_outcome_of_its_own() {
    let harness = harness();
    let outcome = harness.fail("sleeper", json!({"timeout_ms": 1000})).await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    assert_eq!(
        outcome.model_text(),
        "timed_out: the call was stopped after 1.0 s\n\
         hint: ask for a longer time, or split the work"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ignores_its_cancel_is_dropped_after_the_grace() {
    let stubborn = Scripted::new("stubborn", |_, _| async {
        std::future::pending::<()>().await;
        Ok(json!(null))
    });
    let harness = Harness::memory().tools(vec![stubborn.tool()]).build();
    let started = Instant::now();
    let request = harness.request("stubborn", json!({})).timeout(SECOND);
    let outcome = harness.runtime.call(request).await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    let grace = Limits::default().stop_grace;
    assert_eq!(started.elapsed(), SECOND + grace, "stop means stop");
    assert_eq!(harness.runtime.in_flight(), 0);
}

/// On a clock that only waiting moves: nobody waited for anything after the cancel.
#[tokio::test(start_paused = true)]
async fn rx_07_a_cancel_ends_a_call_at_once() {
    let harness = harness();
    let request = harness.request("sleeper", json!({}));
    let call = request.id;
    let runtime = harness.runtime.clone();
    let running = tokio::spawn(async move { runtime.call(request).await });
    while harness.events.count("running") == 0 {
        tokio::task::yield_now().await;
    }
    let asked = Instant::now();
    assert!(harness.runtime.cancel(call));
    let outcome = running.await.unwrap();
    assert_eq!(outcome.terminal, Terminal::Cancelled);
    assert_eq!(asked.elapsed(), Duration::ZERO);
    assert!(!harness.runtime.cancel(call), "it is gone");
}

/// Finding 1 of the security review: a tool that computes without waiting cannot hold off its
/// deadline, and what it tries afterwards comes too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rx_07_a_tool_that_never_waits_is_left_behind_at_its_deadline() {
    let (told, mut ended) = tokio::sync::mpsc::channel(1);
    let released = Arc::<AtomicBool>::default();
    let over = Arc::clone(&released);
    let spinning = Scripted::new("spinning", move |_, cx| {
        let told = told.clone();
        let over = Arc::clone(&over);
        async move {
            // Until the call has ended without it.
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let path = WorkPath::relative("late").unwrap();
            let write = WriteFile {
                bytes: b"late",
                expected: Expected::Anything,
                mode: WriteMode::AsItIs,
            };
            let late = cx.files().write(&path, write).await;
            told.try_send(late.is_err()).unwrap();
            Ok(json!(null))
        }
    })
    .effects(Effects::CHANGES)
    .accesses(|_| vec![Access::write(WorkPath::relative("late").unwrap())]);
    let harness = Harness::memory().tools(vec![spinning.tool()]).build();
    let request = harness.request("spinning", json!({})).timeout(SECOND / 2);
    let outcome = harness.runtime.call(request).await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    released.store(true, Ordering::Relaxed);
    assert_eq!(ended.recv().await, Some(true), "its write was refused");
    assert!(harness.tree.bytes("late").is_none());
    assert_eq!(harness.events.kinds(outcome.call).last(), Some(&"settled"));
}

/// Mistake 6: a timeout table whose keys can never match.
#[tokio::test]
async fn mistake_06_an_action_the_spec_does_not_list_is_a_fault() {
    let harness = Harness::memory()
        .tools(vec![Scripted::echo("plain").tool()])
        .build();
    let outcome = harness.fail("plain", json!({"action": "slow"})).await;
    assert!(
        outcome.model_text().contains("`slow`"),
        "{}",
        outcome.model_text()
    );
}
