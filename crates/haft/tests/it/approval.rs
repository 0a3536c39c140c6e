//! Somebody to ask: the closure sees the plan, its answer counts once, and without anybody the
//! answer is a truthful no.

use std::sync::{Arc, Mutex};

use haft::{contract::outcome::DeniedBy, prelude::*};

use crate::place::Place;

fn write(content: &str) -> Value {
    json!({"path": "notes.txt", "content": content})
}

#[tokio::test]
async fn the_closure_is_asked_with_the_whole_plan_and_its_yes_lets_the_call_run() {
    let asked: Arc<Mutex<Vec<ApprovalRequest>>> = Arc::default();
    let questions = Arc::clone(&asked);
    let place = Place::new();
    let haft = place
        .haft()
        .approve_with(move |request| {
            questions.lock().unwrap().push(request.clone());
            async move { request.approve("ada") }
        })
        .build()
        .await
        .unwrap();

    let outcome = haft.call("write_file", write("hello\n")).await;

    assert_eq!(
        outcome.terminal,
        Terminal::Succeeded,
        "{}",
        outcome.model_text()
    );
    assert_eq!(place.read("notes.txt"), "hello\n");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    let plan = &asked[0].plan;
    assert_eq!(plan.tool().to_string(), "builtin/write");
    assert_eq!(plan.input()["content"], "hello\n");
    let Access::Path(path) = &plan.accesses()[0] else {
        panic!("{:?}", plan.accesses());
    };
    assert_eq!(path.target().as_str(), "notes.txt");
    assert_eq!(asked[0].call, outcome.call);
}

#[tokio::test]
async fn a_persons_no_reaches_the_model_with_its_reason_and_nothing_happens() {
    let place = Place::new();
    let haft = place
        .haft()
        .approve_with(
            |request| async move { request.refuse("ada", Some("not on a Friday".into())) },
        )
        .build()
        .await
        .unwrap();

    let outcome = haft.call("write", write("x")).await;

    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Person));
    assert!(
        outcome.model_text().contains("not on a Friday"),
        "{}",
        outcome.model_text()
    );
    assert!(!place.exists("notes.txt"));
}

#[tokio::test]
async fn what_would_ask_is_denied_truthfully_when_nobody_is_there() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();

    let outcome = haft.call("write", write("x")).await;

    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::NobodyToAsk));
    assert!(!place.exists("notes.txt"));
}

#[tokio::test]
async fn a_yes_to_another_plan_lets_nothing_run() {
    let first: Arc<Mutex<Option<ApprovalRequest>>> = Arc::default();
    let place = Place::new();
    // Answers every question with the yes that was meant for the first one.
    let haft = place
        .haft()
        .approve_with(move |request| {
            let first = first.lock().unwrap().get_or_insert(request).clone();
            async move { first.approve("ada") }
        })
        .build()
        .await
        .unwrap();

    assert!(haft.call("write", write("agreed")).await.succeeded());
    let second = haft.call("write", write("not agreed")).await;

    assert_eq!(second.terminal, Terminal::Denied, "{}", second.model_text());
    assert_eq!(place.read("notes.txt"), "agreed");
}
