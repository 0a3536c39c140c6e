//! What an embedder sees of a call while it runs: every test goes on only with what it saw.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use haft::{prelude::*, runtime::event_channel};

use crate::place::Place;

/// The second part of the directory gets its file only once the first match has been seen.
#[tokio::test]
async fn the_first_match_of_a_grep_is_seen_before_the_search_ends() {
    let place = Place::with(&[("a.txt", "needle one\n"), ("later/b.txt", "hay\n")]);
    let (late, seen) = (place.path("later/c.txt"), Arc::new(Mutex::new(Vec::new())));
    let listener = Arc::clone(&seen);
    let haft = place
        .haft()
        .on_event(move |happened| {
            if let CallEvent::Item(item) = &happened.event {
                listener.lock().unwrap().push(item.line.clone());
                if item.number == 1 {
                    fs::write(&late, "needle two\n").unwrap();
                }
            }
        })
        .build()
        .await
        .unwrap();

    let outcome = haft.call("grep", json!({"pattern": "needle"})).await;

    let expected = ["a.txt:1: needle one", "later/c.txt:1: needle two"];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(outcome.structured.as_ref().unwrap()["results"], 2);
}

#[tokio::test]
async fn the_first_file_of_a_find_is_seen_before_the_search_ends() {
    let place = Place::with(&[("a.rs", ""), ("later/b.txt", "")]);
    let (late, seen) = (place.path("later/c.rs"), Arc::new(Mutex::new(Vec::new())));
    let listener = Arc::clone(&seen);
    let haft = place
        .haft()
        .on_event(move |happened| {
            if let CallEvent::Item(item) = &happened.event {
                listener.lock().unwrap().push(item.value.clone());
                fs::write(&late, "").unwrap();
            }
        })
        .build()
        .await
        .unwrap();

    let outcome = haft.call("find", json!({"pattern": "*.rs"})).await;

    let entry = |path: &str| json!({"path": path, "kind": "file"});
    assert_eq!(*seen.lock().unwrap(), [entry("a.rs"), entry("later/c.rs")]);
    assert_eq!(outcome.structured.as_ref().unwrap()["total"], 2);
}

/// The command waits for a file that exists only once its first line has been received.
#[tokio::test]
async fn the_first_line_of_a_command_is_received_before_it_ends() {
    let place = Place::new();
    let (queue, mut events) = event_channel(256);
    let haft = place
        .haft()
        .allow("bash")
        .sandbox("bash", SandboxMode::Off)
        .configure(|runtime| runtime.events(queue))
        .build()
        .await
        .unwrap();
    let command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last >&2";
    let call = haft.call("bash", json!({"command": command}));
    let watch = async {
        let mut seen = String::new();
        loop {
            match events.next().await.unwrap().event {
                CallEvent::Output { text, .. } => {
                    seen.push_str(&text);
                    if seen == "first\n" {
                        fs::write(place.path("go"), "").unwrap();
                    }
                }
                CallEvent::Settled { .. } => break seen,
                _ => {}
            }
        }
    };
    let (outcome, seen) = tokio::join!(call, watch);
    assert_eq!(seen, "first\nlast\n");
    let structured = outcome.structured.as_ref().unwrap();
    assert_eq!(
        (&structured["stdout"], &structured["stderr"]),
        (&json!("first\n"), &json!("last\n"))
    );
}
