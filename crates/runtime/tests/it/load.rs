//! 10,000 calls at once in one process: all accounted for, none lost, bounded memory.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{Deadline, Terminal};
use haft_runtime::Limits;
use haft_testkit::{CpuTime, Harness, eventually};
use serde_json::json;

use crate::scripted::Scripted;

const CALLS: usize = 10_000;

/// Longer than any machine takes to start them all.
const HOUR: Duration = Duration::from_hours(1);

/// What a waiting call may cost in this build and on this ledger, which keeps every event; the
/// bench recipe records the figure of the real one.
const BYTES_PER_WAITING_CALL: usize = 32 * 1024;

/// The CPU time all of them may take together in this build, so that none costs more for each
/// other one that is there.
const CPU_TIME: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_concurrent_calls_are_all_accounted_for() {
    let (release, released) = tokio::sync::watch::channel(false);
    let waiting = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&waiting);
    let hold = Scripted::new("hold", move |_, _| {
        let (mut released, count) = (released.clone(), Arc::clone(&count));
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = released.wait_for(|released| *released).await;
            Ok(json!("rested"))
        }
    })
    .spec(|spec| spec.deadline(Deadline::new(HOUR, HOUR)));
    let harness = Harness::memory().tools(vec![hold.tool()]).build();

    let cpu = CpuTime::start();
    let before = resident_bytes();
    let mut calls = tokio::task::JoinSet::new();
    let mut ids = HashSet::new();
    for _ in 0..CALLS {
        let request = harness.request("hold", json!({}));
        ids.insert(request.id);
        let runtime = harness.runtime.clone();
        calls.spawn(async move { runtime.call(request).await });
    }
    eventually("all are inside", || waiting.load(Ordering::SeqCst) == CALLS).await;
    assert_eq!(harness.runtime.in_flight(), CALLS);
    let each = resident_bytes().saturating_sub(before) / CALLS;

    release.send(true).unwrap();
    while let Some(ended) = calls.join_next().await {
        let outcome = ended.unwrap();
        assert!(outcome.succeeded(), "{}", outcome.model_text());
        assert!(ids.remove(&outcome.call), "{} ended twice", outcome.call);
    }
    assert!(ids.is_empty(), "{} calls were lost", ids.len());
    assert!(harness.ledger.open_calls().is_empty());
    assert_eq!(harness.runtime.in_flight(), 0);

    let used = cpu.used();
    println!("{CALLS} calls: {each} bytes each while waiting; {used:?} of CPU time for all");
    assert!(
        each < BYTES_PER_WAITING_CALL,
        "{each} bytes per waiting call"
    );
    assert!(used < CPU_TIME, "{used:?}");
}

/// What this process holds in memory.
#[expect(clippy::disallowed_methods, reason = "the process asks about itself")]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
    pages * 4096
}

#[tokio::test]
async fn the_call_beyond_the_limit_is_refused_not_queued_for_ever() {
    let hold = Scripted::new("hold", |_, cx| async move {
        cx.cancel().cancelled().await;
        Ok(json!(null))
    });
    let limits = Limits {
        calls_in_flight: 2,
        ..Limits::default()
    };
    let harness = Harness::memory()
        .tools(vec![hold.tool()])
        .limits(limits)
        .build();
    let cancel = tokio_util::sync::CancellationToken::new();
    let both = harness.runtime.clone();
    let requests = (0..2).map(|_| harness.request("hold", json!({}))).collect();
    let token = cancel.clone();
    let waiting = tokio::spawn(async move { both.batch_until(requests, token).await });
    while harness.runtime.in_flight() < 2 {
        tokio::task::yield_now().await;
    }
    let outcome = harness.fail("hold", json!({})).await;
    assert_eq!(outcome.terminal, Terminal::Failed);
    assert!(
        outcome.model_text().contains("2 calls are in flight"),
        "{}",
        outcome.model_text()
    );
    cancel.cancel();
    waiting.await.unwrap();
}
