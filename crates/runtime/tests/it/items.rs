//! Items that a tool emits while it runs: seen before the call ends, capped, and never waited for.

use std::sync::{Arc, Mutex};

use haft_contract::{CallEvent, Terminal, streamed::StreamedItem};
use haft_runtime::{Limits, event_channel};
use haft_testkit::{EventLog, Harness};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use crate::scripted::Scripted;

/// A row of a made-up query.
#[derive(Serialize, JsonSchema)]
struct Row {
    id: u64,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {}", self.id)
    }
}

/// Emits this many rows and ends.
fn rows(count: u64) -> Scripted {
    Scripted::new("rows", move |_, cx| async move {
        for id in 1..=count {
            cx.emit(&Row { id });
        }
        Ok(json!({ "rows": count }))
    })
}

fn items(events: &[CallEvent]) -> Vec<StreamedItem> {
    let items = events.iter().filter_map(|event| match event {
        CallEvent::Item(item) => Some(StreamedItem::clone(item)),
        _ => None,
    });
    items.collect()
}

#[tokio::test]
async fn an_item_is_seen_before_the_call_ends() {
    let (go, going) = mpsc::channel::<()>(1);
    let going = Arc::new(Mutex::new(Some(going)));
    let tool = Scripted::new("rows", move |_, cx| {
        let going = going.lock().unwrap().take();
        async move {
            cx.emit(&Row { id: 1 });
            // Goes on only once the test has seen the first row.
            going.unwrap().recv().await.unwrap();
            cx.emit(&Row { id: 2 });
            Ok(json!({ "rows": 2 }))
        }
    });
    let tool = tool.spec(|spec| spec.streams::<Row>("row")).tool();
    let (queue, mut events) = event_channel(64);
    let harness = Harness::memory()
        .tools(vec![tool])
        .configure(|builder| builder.events(queue))
        .build();
    let call = harness.succeed("rows", json!({}));
    let watch = async {
        let mut seen = Vec::new();
        while let Some(happened) = events.next().await {
            match happened.event {
                CallEvent::Item(item) => {
                    seen.push((item.number, item.line.clone(), item.value.clone()));
                    if item.number == 1 {
                        go.send(()).await.unwrap();
                    }
                }
                CallEvent::Settled { .. } => break,
                _ => {}
            }
        }
        seen
    };
    let (outcome, seen) = tokio::join!(call, watch);
    assert_eq!(outcome.structured, Some(json!({ "rows": 2 })));
    let expected = [1, 2].map(|id| (id, format!("row {id}"), json!({ "id": id })));
    assert_eq!(seen, expected);
    assert_eq!(events.missed(), 0);
}

#[tokio::test]
async fn what_is_too_much_or_too_large_is_not_shown_and_not_missing_from_the_result() {
    let log = EventLog::new();
    let limits = Limits {
        items: 3,
        item_bytes: 8,
        ..Limits::default()
    };
    let large = Scripted::new("large", |_, cx| async move {
        cx.emit(&"more than eight bytes");
        Ok(json!({}))
    });
    let streams = |tool: Scripted| tool.spec(|spec| spec.streams::<Row>("row")).tool();
    let harness = Harness::memory()
        .tools(vec![streams(rows(100)), streams(large)])
        .limits(limits)
        .configure(|builder| builder.events(Arc::new(log.clone())))
        .build();
    let outcome = harness.succeed("rows", json!({})).await;
    assert_eq!(items(&log.of(outcome.call)).len(), 3);
    assert_eq!(outcome.structured, Some(json!({ "rows": 100 })));
    let outcome = harness.succeed("large", json!({})).await;
    let shown = items(&log.of(outcome.call));
    assert_eq!(
        shown[0].value,
        json!({"omitted": "the item is larger than 8 bytes"})
    );
}

#[tokio::test]
async fn a_tool_that_does_not_say_that_it_streams_emits_nothing() {
    let log = EventLog::new();
    let harness = Harness::memory()
        .tools(vec![rows(3).tool()])
        .configure(|builder| builder.events(Arc::new(log.clone())))
        .build();
    let outcome = harness.succeed("rows", json!({})).await;
    assert_eq!(items(&log.of(outcome.call)), []);
}

/// Nobody reads, and the call ends all the same; the reader learns what it missed, and has the end.
#[tokio::test]
async fn a_slow_reader_slows_no_call() {
    let (queue, mut events) = event_channel(32);
    let tool = rows(5_000).spec(|spec| spec.streams::<Row>("row")).tool();
    let harness = Harness::memory()
        .tools(vec![tool])
        .configure(|builder| builder.events(queue))
        .build();
    let outcome = harness.succeed("rows", json!({})).await;
    assert_eq!(outcome.terminal, Terminal::Succeeded);
    let missed = events.missed();
    let (mut shown, mut ended) = (0, false);
    while !ended {
        match events.next().await.unwrap().event {
            CallEvent::Item(_) => shown += 1,
            CallEvent::Settled { .. } => ended = true,
            _ => {}
        }
    }
    assert_eq!(shown + missed, 5_000);
    assert!(shown > 0 && missed > 0);
}

/// Whoever looks at the record of a call that takes long sees how far it has got; a call that ends
/// soon leaves no such note.
#[tokio::test(start_paused = true)]
async fn a_call_that_takes_long_notes_its_progress() {
    let log = EventLog::new();
    let tool = Scripted::new("slow", |input, cx| async move {
        cx.emit(&Row { id: 7 });
        let seconds = input["seconds"].as_u64().unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        Ok(json!({}))
    });
    let tool = tool.spec(|spec| spec.streams::<Row>("row")).tool();
    let harness = Harness::memory()
        .tools(vec![tool])
        .configure(|builder| builder.events(Arc::new(log.clone())))
        .build();
    let notes = |events: Vec<CallEvent>| {
        let notes = events.into_iter().filter_map(|event| match event {
            CallEvent::ProgressNoted(note) => Some((note.message, note.deadline_in.as_secs())),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    let soon = harness.succeed("slow", json!({"seconds": 0})).await;
    assert_eq!(notes(log.of(soon.call)), []);
    let longer = harness.succeed("slow", json!({"seconds": 20})).await;
    assert_eq!(notes(log.of(longer.call)), [("row 7".to_owned(), 29)]);
}
