//! Panics in an embedder's closures: none comes out of `call`, and the record tells what happened.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft::{
    contract::{host::History as _, outcome::DeniedBy},
    prelude::*,
};

use crate::place::Place;

#[tokio::test]
async fn a_panicking_listener_never_reaches_the_caller() {
    let place = Place::with(&[("notes.txt", "hello\n")]);
    let told: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&told);
    let haft = place
        .haft()
        .on_event(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("a listener's fault");
        })
        .build()
        .await
        .unwrap();
    for _ in 0..2 {
        let outcome = haft.call("read", json!({"path": "notes.txt"})).await;
        assert!(outcome.succeeded(), "{}", outcome.model_text());
    }
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_panicking_approver_denies_and_the_record_says_that_it_failed() {
    let place = Place::new();
    let haft = place
        .haft()
        .approve_with(|request| async move {
            assert!(request.expires.0 == 0, "an approver's fault");
            request.approve("ada")
        })
        .build()
        .await
        .unwrap();

    let write = json!({"path": "notes.txt", "content": "x"});
    let outcome = haft.call("write", write).await;

    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Approver));
    let text = outcome.model_text();
    assert!(text.contains("the approver failed: it panicked"), "{text}");
    assert!(!place.exists("notes.txt"));
    haft.runtime().flush().await.unwrap();
    let tenant = &haft.principal().tenant;
    let events = haft.ledger().events(tenant, outcome.call).await.unwrap();
    let answered = events
        .iter()
        .find(|event| event.kind == "approval_answered");
    let answer = &answered.unwrap().body;
    assert_eq!(answer["answer"], "failed", "{answer}");
    let settled = events.iter().find(|event| event.kind == "settled").unwrap();
    assert_eq!(settled.body["facts"]["denied_by"], "approver");
}
