//! The queue is bounded, every waiter gets its turn, and all space is returned.

use std::{path::Path, sync::Arc};

use haft_contract::{AgentId, CallEvent, CallId, Principal, SessionId, UserId, host::Clock};
use serde_json::json;
use tokio::{task::JoinHandle, time::Instant};

use super::*;

struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

const WAIT: Duration = Duration::from_secs(5);

fn request(text: &str) -> CallRequest {
    let principal = Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse("s1").unwrap(),
    );
    CallRequest::new("sample", json!({"text": text}), Arc::new(principal))
}

/// A queue with space for this many small requests, with the test as its writer.
fn queue(calls: usize) -> Arc<Queue> {
    let mut options = LedgerOptions::new(Path::new("nowhere"), Arc::new(TestClock));
    options.open_wait = WAIT;
    options.max_queued_bytes = weight::request(&request("")) * calls;
    Arc::new(Queue::new(&options))
}

async fn open(queue: &Queue, text: &str) -> Result<Handle, LedgerError> {
    queue
        .open(&request(text), Timestamp(0), CallHolder::ThisProcess)
        .await
}

fn opening(queue: &Arc<Queue>, text: &str) -> JoinHandle<Result<Handle, LedgerError>> {
    let (queue, text) = (Arc::clone(queue), text.to_owned());
    tokio::spawn(async move { open(&queue, &text).await })
}

/// More bytes than several calls are opened with.
fn much() -> Vec<RecordedEvent> {
    let happened = |_| RecordedEvent {
        call: CallId::new(),
        at: Timestamp(0),
        event: CallEvent::Running,
    };
    (0..50).map(happened).collect()
}

/// Takes what is queued, as the writer does, without returning its space.
async fn taken(queue: &Queue) -> WriteBatch {
    queue.take(usize::MAX, Duration::ZERO).await.unwrap()
}

async fn write(queue: &Queue) {
    let bytes = taken(queue).await.bytes();
    queue.release(0, 0, bytes);
}

fn is_whole(queue: &Queue) -> bool {
    queue.lock().bytes == 0 && queue.space.is_whole()
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_space_as_long_as_something_is_written() {
    let queue = queue(2);
    open(&queue, "").await.unwrap();
    open(&queue, "").await.unwrap();
    let full = taken(&queue).await;
    let waits = opening(&queue, "");
    for _ in 0..20 {
        tokio::time::sleep(WAIT * 4 / 5).await;
        assert!(!waits.is_finished());
        // A release that frees no space still shows that the store is working.
        queue.release(0, 0, 0);
    }
    queue.release(0, 0, full.bytes());
    waits.await.unwrap().unwrap();
    write(&queue).await;
    assert!(is_whole(&queue), "{queue:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_refused_when_nothing_is_written_for_as_long_as_it_may_wait() {
    let queue = queue(1);
    open(&queue, "").await.unwrap();
    let begun = Instant::now();
    let refused = open(&queue, "").await.unwrap_err();
    assert!(refused.to_string().contains(NOTHING_WRITTEN), "{refused}");
    assert_eq!(begun.elapsed(), WAIT);
    // If the store reported why it fails, that is the reason.
    let waits = opening(&queue, "");
    tokio::time::sleep(WAIT / 2).await;
    queue.fail("the disk is full");
    let refused = waits.await.unwrap().unwrap_err();
    assert!(
        refused.to_string().contains("the disk is full"),
        "{refused}"
    );
    queue.recover();
    write(&queue).await;
    assert!(is_whole(&queue), "{queue:?}");
}

/// A storm of calls, each appending more than it was opened with.
#[tokio::test(start_paused = true)]
async fn everybody_gets_space_in_turn_and_all_of_it_is_given_back() {
    const CALLS: usize = 1_000;
    let queue = queue(3);
    let calls: Vec<_> = (0..CALLS).map(|_| opening(&queue, "")).collect();
    let writing = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move {
            loop {
                let bytes = taken(&queue).await.bytes();
                tokio::time::sleep(WAIT / 2).await;
                queue.release(0, 0, bytes);
            }
        }
    });
    for (number, call) in calls.into_iter().enumerate() {
        let handle = call.await.unwrap().unwrap();
        assert_eq!(handle.0, number as u64);
        queue.settle(handle, much());
    }
    // Until everything was taken and written.
    while !queue.space.is_whole() {
        tokio::time::sleep(WAIT).await;
    }
    assert!(is_whole(&queue), "{queue:?}");
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_leaves_what_it_had_to_the_next() {
    let queue = queue(4);
    open(&queue, "").await.unwrap();
    // Needs all the space, and has three quarters of it.
    let large = opening(&queue, &"x".repeat(100_000));
    tokio::task::yield_now().await;
    let small = opening(&queue, "");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!small.is_finished());
    large.abort();
    small.await.unwrap().unwrap();
    write(&queue).await;
    assert!(is_whole(&queue), "{queue:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_place_has_no_space_meanwhile() {
    let mut options = LedgerOptions::new(Path::new("nowhere"), Arc::new(TestClock));
    options.max_calls_in_flight = 1;
    options.max_queued_bytes = 1;
    let queue = Arc::new(Queue::new(&options));
    open(&queue, "").await.unwrap();
    write(&queue).await;
    let waits = opening(&queue, "");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(is_whole(&queue), "{queue:?}");
    queue.release(0, 1, 0);
    waits.await.unwrap().unwrap();
}
