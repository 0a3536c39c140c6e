//! RX-05, RX-06, RX-07: processes that do not end by themselves, seen in the process table.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use haft::prelude::*;
use haft_testkit::{PATIENCE, eventually};

use super::limits::gone;
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::{Said, Scene},
};

/// Sleeps that no other test makes, so that they can be told in the process table: in a sandbox a
/// command's own ids mean nothing outside.
fn sleep(scene: &Scene) -> String {
    let number: u32 = scene.expand("<unique>").bytes().fold(7, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    format!("sleep {}", 100_000 + number % 800_000)
}

pub(super) async fn grandchild(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let asleep = sleep(&scene);
    for (what, command) in [
        ("in the session", "SLEEP & echo started"),
        ("out of the session", "setsid SLEEP & echo started"),
        (
            "twice forked",
            "(setsid bash -c 'exec SLEEP' &); sleep 0.2; echo started",
        ),
    ] {
        let command = command.replace("SLEEP", &asleep);
        let outcome = haft.call("bash", json!({ "command": command })).await;
        let ended = outcome.succeeded() && outcome.text().contains("started");
        verdict.attempt(what, check(ended, || outcome.model_text()));
        verdict.attempt(what, gone(&asleep).await);
    }
    let outcome = haft
        .call("bash", json!({ "command": "sleep 0.1 & echo quick; wait" }))
        .await;
    let quick = outcome.succeeded() && outcome.text().contains("quick");
    verdict.twin("a child that ends", check(quick, || outcome.model_text()));
    haft.close().await.unwrap();
}

pub(super) async fn stubborn(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let asleep = sleep(&scene);
    for (what, command) in [
        (
            "ignores SIGTERM",
            "trap '' TERM INT HUP; SLEEP & while :; do sleep 1; done",
        ),
        ("stopped", "kill -STOP $$; SLEEP"),
        (
            "a stopped grandchild",
            "bash -c 'kill -STOP $$; SLEEP' & wait",
        ),
    ] {
        let command = command.replace("SLEEP", &asleep);
        let outcome = haft
            .call("bash", json!({ "command": command, "timeout_ms": 1_500 }))
            .await;
        let timed_out = outcome.terminal == Terminal::TimedOut;
        verdict.attempt(what, check(timed_out, || outcome.model_text()));
        verdict.attempt(what, gone(&asleep).await);
    }
    let polite = "trap 'echo cleaned > mark; exit' TERM; while :; do sleep 0.05; done";
    let outcome = haft
        .call("bash", json!({ "command": polite, "timeout_ms": 3_000 }))
        .await;
    let cleaned = outcome.terminal == Terminal::TimedOut && scene.at("mark").exists();
    verdict.twin(
        "a polite one may clean up",
        check(cleaned, || outcome.model_text()),
    );
    haft.close().await.unwrap();
}

pub(super) async fn cancelled(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let asleep = sleep(&scene);
    let sleeper = || json!({ "command": format!("echo kept; echo $$ > pid; {asleep}") });

    let request = haft.request("bash", sleeper());
    let id = request.id;
    let (outcome, ()) = tokio::join!(haft.runtime().call(request), async {
        started(&scene.at("pid")).await;
        assert!(haft.runtime().cancel(id), "the call is not in flight");
    });
    let right = outcome.terminal == Terminal::Cancelled && outcome.text().contains("kept");
    verdict.attempt("cancel", check(right, || outcome.model_text()));
    verdict.attempt("cancel", gone(&asleep).await);

    // A client that goes away.
    fs::remove_file(scene.at("pid")).unwrap();
    let pid = scene.at("pid");
    let request = haft.request("bash", sleeper());
    let id = request.id;
    tokio::select! {
        outcome = haft.runtime().call(request) => panic!("it ended: {}", outcome.model_text()),
        () = started(&pid) => {}
    }
    verdict.attempt("a client that goes away", gone(&asleep).await);
    let mut terminal = None;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let stored = haft
            .ledger()
            .call(&haft.principal().tenant, id)
            .await
            .unwrap();
        terminal = stored.and_then(|call| call.terminal);
        if terminal.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    verdict.attempt(
        "a client that goes away",
        check(terminal == Some(Terminal::Cancelled), || {
            format!("the record says {terminal:?}")
        }),
    );
    haft.close().await.unwrap();
}

/// Waits until a command has written its process id.
async fn started(pid: &Path) {
    let written = || fs::read_to_string(pid).is_ok_and(|text| text.ends_with('\n'));
    eventually("it has begun", written).await;
}
