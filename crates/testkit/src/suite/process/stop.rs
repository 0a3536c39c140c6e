//! Stop means stop: the whole tree, in time, whoever asks.

use std::time::{Duration, Instant};

use haft_contract::ops::ExitStatus;

use super::{LONG, WRITES_LATE, finish, nobody_writes_late, script, start, until};
use crate::suite::fixture::{BackendFixture, works};

/// How long a stop may take beyond its grace.
const SLACK: Duration = Duration::from_secs(5);

/// Promise 6, mistake 4: children of the child are gone when `stop` returns.
pub async fn stop_ends_the_whole_tree(fixture: impl BackendFixture) {
    let mut child = start(&fixture, script(&fixture, WRITES_LATE)).await;
    until(&mut *child, "ready").await;
    let begun = Instant::now();
    works("stop", child.stop(Duration::from_secs(10)).await);
    assert!(
        begun.elapsed() < SLACK,
        "a child that heeds SIGTERM needs no grace"
    );
    let status = works("wait", child.wait().await).status;
    assert!(matches!(status, ExitStatus::Signal(15 | 9)), "{status:?}");
    nobody_writes_late(&fixture).await;
}

/// What ignores SIGTERM has the grace and not a moment more.
pub async fn stop_kills_what_ignores_it_after_the_grace(fixture: impl BackendFixture) {
    let grace = Duration::from_millis(300);
    let text = format!("trap '' TERM; echo ready; sleep {LONG}; echo over");
    let mut child = start(&fixture, script(&fixture, &text)).await;
    until(&mut *child, "ready").await;
    let begun = Instant::now();
    works("stop", child.stop(grace).await);
    assert!(begun.elapsed() < grace + SLACK, "{:?}", begun.elapsed());
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Signal(9)
    );
    assert_eq!(child.next_chunk().await, None);
}

/// Stopping twice, or after the end, does nothing and is no error; the code stays.
pub async fn stop_of_an_ended_child_is_fine(fixture: impl BackendFixture) {
    let mut child = start(&fixture, script(&fixture, "exit 5")).await;
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(5)
    );
    for _ in 0..2 {
        works("stop", child.stop(Duration::from_secs(10)).await);
    }
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(5)
    );
}

/// A dropped call leaves nothing running.
pub async fn dropping_the_handle_ends_the_whole_tree(fixture: impl BackendFixture) {
    let mut child = start(&fixture, script(&fixture, WRITES_LATE)).await;
    until(&mut *child, "ready").await;
    drop(child);
    nobody_writes_late(&fixture).await;
}

/// A grandchild that keeps the pipe delays the end by the drain limit, not by its whole life.
pub async fn output_ends_although_a_grandchild_holds_it(fixture: impl BackendFixture) {
    let begun = Instant::now();
    let text = format!("sleep {LONG} & echo done");
    let ended = finish(&fixture, script(&fixture, &text)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        (ended.stdout().as_str(), ended.status),
        ("done\n", ExitStatus::Code(0))
    );
}

/// Two children of one workspace have their own output and their own end.
pub async fn a_child_that_is_not_waited_for_does_not_end_others(fixture: impl BackendFixture) {
    let abandoned = start(&fixture, script(&fixture, &format!("sleep {LONG}"))).await;
    let mut kept = start(
        &fixture,
        script(&fixture, "echo ready; sleep 0.3; echo over"),
    )
    .await;
    until(&mut *kept, "ready").await;
    drop(abandoned);
    until(&mut *kept, "over").await;
    assert_eq!(works("wait", kept.wait().await).status, ExitStatus::Code(0));
}
