//! 10,000 calls at once in one process: all accounted for, none lost, bounded memory.

use std::time::{Duration, Instant};

use haft_contract::Terminal;
use haft_runtime::Limits;
use haft_testkit::Harness;
use serde_json::json;

use crate::scripted::Scripted;

const CALLS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_concurrent_calls_are_all_accounted_for() {
    let sleep = Scripted::new("sleep", |_, _| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(json!("rested"))
    });
    let harness = Harness::memory().tools(vec![sleep.tool()]).build();
    let requests: Vec<_> = (0..CALLS)
        .map(|_| harness.request("sleep", json!({})))
        .collect();
    let ids: Vec<_> = requests.iter().map(|request| request.id).collect();
    let started = Instant::now();
    let outcomes = harness.runtime.batch(requests).await;
    let took = started.elapsed();
    assert_eq!(
        outcomes
            .iter()
            .filter(|outcome| outcome.succeeded())
            .count(),
        CALLS
    );
    let returned: Vec<_> = outcomes.iter().map(|outcome| outcome.call).collect();
    assert_eq!(returned, ids);
    assert!(harness.ledger.open_calls().is_empty());
    // Generous, because test machines are shared; the bench recipe records the real figure.
    assert!(took < Duration::from_secs(20), "{took:?}");
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
