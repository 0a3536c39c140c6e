//! Stop means stop: the whole tree, in time, whoever asks.

use std::time::Duration;

use haft_contract::ops::{ExitStatus, RemoveScope};

use super::{
    LONG, WRITES_WHEN_TOLD, finish, nobody_writes_when_told, script, start, until,
    written_when_told,
};
use crate::suite::fixture::{BackendFixture, at, works};

/// A grace period longer than any case: waiting for it is a hang.
const ENDLESS: Duration = Duration::from_hours(1);

/// Promise 6, mistake 4: children of the child are gone when `stop` returns.
pub async fn stop_ends_the_whole_tree(fixture: impl BackendFixture) {
    let mut child = start(&fixture, script(&fixture, WRITES_WHEN_TOLD)).await;
    until(&mut *child, "ready").await;
    // A child that obeys SIGTERM needs no grace period.
    works("stop", child.stop(ENDLESS).await);
    let status = works("wait", child.wait().await).status;
    assert!(matches!(status, ExitStatus::Signal(15 | 9)), "{status:?}");
    nobody_writes_when_told(&fixture).await;
}

/// A child that ignores SIGTERM is killed, although it would run longer than any case.
pub async fn stop_kills_what_ignores_it_after_the_grace(fixture: impl BackendFixture) {
    let grace = Duration::from_millis(300);
    let text = format!("trap '' TERM; echo ready; sleep {LONG}; echo over");
    let mut child = start(&fixture, script(&fixture, &text)).await;
    until(&mut *child, "ready").await;
    works("stop", child.stop(grace).await);
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Signal(9)
    );
    assert_eq!(child.next_chunk().await, None);
}

/// Stopping twice, or after the end, does nothing and is not an error; the exit code stays.
pub async fn stop_of_an_ended_child_is_fine(fixture: impl BackendFixture) {
    let mut child = start(&fixture, script(&fixture, "exit 5")).await;
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(5)
    );
    for _ in 0..2 {
        works("stop", child.stop(ENDLESS).await);
    }
    assert_eq!(
        works("wait", child.wait().await).status,
        ExitStatus::Code(5)
    );
}

/// A dropped call leaves nothing running. It ends in the background, so a child that still writes
/// may only have been slow to end: then the case tries once more, with a later `go`.
pub async fn dropping_the_handle_ends_the_whole_tree(fixture: impl BackendFixture) {
    let files = fixture.operations().files;
    for pause in [0.2, 1.0, 5.0, 20.0] {
        let mut child = start(&fixture, script(&fixture, WRITES_WHEN_TOLD)).await;
        until(&mut *child, "ready").await;
        drop(child);
        tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        let written = written_when_told(&fixture).await;
        if written.is_empty() {
            return;
        }
        for name in written.iter().map(String::as_str).chain(["go"]) {
            works("remove", files.remove(&at(name), RemoveScope::File).await);
        }
    }
    panic!("a child lived on");
}

/// A grandchild that keeps the pipe open delays the end by the drain limit, not by its whole life.
pub async fn output_ends_although_a_grandchild_holds_it(fixture: impl BackendFixture) {
    let text = format!("sleep {LONG} & echo done");
    let ended = finish(&fixture, script(&fixture, &text)).await;
    assert_eq!(
        (ended.stdout().as_str(), ended.status),
        ("done\n", ExitStatus::Code(0))
    );
}

/// Two children in one workspace have separate output and separate ends.
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
