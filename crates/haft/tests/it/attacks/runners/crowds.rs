//! Very many callers at once: calls, sessions, and questions that nobody answers. Each call is
//! answered exactly once, and the memory of the process comes back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use haft::{Haft, Limits, contract::outcome::DeniedBy, prelude::*, runtime::LoopGuard};

use super::health::{peak_since, resident};
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    scene::Scene,
};

/// As many as the corpus asks for.
const CROWD: usize = 10_000;

/// Questions that nobody answers, each of which is a durable write. What ten thousand of them take is
/// shown by `ap_13_ten_thousand_waiting_cost_little`.
const UNANSWERED: usize = 1_000;

/// What one waiting call may cost.
const BYTES_EACH: u64 = 64 << 10;

async fn open(scene: &Scene, limits: &Limits) -> Haft {
    Haft::open(&scene.workspace)
        .data_dir(&scene.data)
        .preset(Preset::Workspace)
        .allow("@all")
        .configure(|runtime| runtime.limits(*limits).loop_guard(LoopGuard::OFF))
        .build()
        .await
        .unwrap()
}

/// RX-19: those beyond the limit are refused at once, the others are served, and then it is quiet.
pub(super) async fn crowd(case: &Case, verdict: &mut Verdict) {
    const LIMIT: usize = 500;
    let scene = Scene::of(case);
    let limits = Limits {
        calls_in_flight: LIMIT,
        ..Limits::default()
    };
    let haft = open(&scene, &limits).await;
    let before = resident();
    let requests = (0..CROWD).map(|_| haft.request("list", json!({ "path": "." })));
    let calls: Vec<_> = requests
        .map(|request| {
            let runtime = haft.runtime().clone();
            tokio::spawn(async move { runtime.call(request).await })
        })
        .collect();
    let (mut served, mut refused, mut other) = (0, 0, Vec::new());
    for call in calls {
        let outcome = call.await.unwrap();
        match outcome.error.as_ref().map(|failure| failure.kind) {
            None => served += 1,
            Some(ErrorKind::Unavailable) => refused += 1,
            Some(_) => other.push(outcome.model_text()),
        }
    }
    println!("{served} served, {refused} refused as overloaded");
    verdict.attempt("answers", check(other.is_empty(), || other[0].clone()));
    verdict.attempt(
        "each once",
        check(served + refused == CROWD && served >= LIMIT, || {
            format!("{served} served, {refused} refused")
        }),
    );
    let grown = peak_since(before);
    verdict.attempt(
        "memory",
        check(grown < BYTES_EACH * CROWD as u64, || {
            format!("{} MiB", grown >> 20)
        }),
    );
    let after = haft.call("list", json!({ "path": "." })).await;
    let quiet = after.succeeded() && haft.runtime().in_flight() == 0;
    verdict.twin("a call afterwards", check(quiet, || after.model_text()));
    haft.close().await.unwrap();
}

/// RX-20: sessions that call once and stay open, while a listener takes its time.
pub(super) async fn sessions(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let heard = Arc::new(AtomicUsize::new(0));
    let haft = Haft::open(&scene.workspace)
        .configure(|runtime| runtime.loop_guard(LoopGuard::OFF))
        .data_dir(&scene.data)
        .preset(Preset::Workspace)
        .allow("@all")
        .on_event({
            let heard = Arc::clone(&heard);
            move |_| {
                heard.fetch_add(1, Ordering::Relaxed);
            }
        })
        .build()
        .await
        .unwrap();
    let before = resident();
    let mut open = Vec::with_capacity(CROWD);
    for number in 0..CROWD {
        let session = haft.session(&format!("s{number}"), SessionKind::Main);
        open.push(session.unwrap());
    }
    let opened = peak_since(before);
    let mut failed = Vec::new();
    for session in open.iter().step_by(20) {
        let outcome = session.call("list", json!({ "path": "." })).await;
        if !outcome.succeeded() {
            failed.push(outcome.model_text());
        }
    }
    let grown = peak_since(before);
    println!(
        "{CROWD} sessions took {} KiB, {} after calls of 500; {} events heard",
        opened >> 10,
        grown >> 10,
        heard.load(Ordering::Relaxed)
    );
    verdict.attempt("calls", check(failed.is_empty(), || failed[0].clone()));
    let each = opened / CROWD as u64;
    verdict.attempt(
        "memory",
        check(each < 4096, || format!("{each} bytes each")),
    );
    verdict.attempt(
        "memory",
        check(grown < 96 << 20, || format!("{} MiB", grown >> 20)),
    );
    let outcome = haft.call("list", json!({ "path": "." })).await;
    verdict.twin(
        "another session",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    haft.close().await.unwrap();
}

/// RX-21: questions that expire.
pub(super) async fn unanswered(case: &Case, verdict: &mut Verdict) {
    const WAIT: Duration = Duration::from_secs(4);
    let scene = Scene::of(case);
    let asked = Arc::new(AtomicUsize::new(0));
    let haft = Haft::open(&scene.workspace)
        .configure(|runtime| runtime.loop_guard(LoopGuard::OFF))
        .data_dir(&scene.data)
        .preset(Preset::Careful)
        .approve_with({
            let asked = Arc::clone(&asked);
            move |request| {
                asked.fetch_add(1, Ordering::Relaxed);
                async move {
                    std::future::pending::<()>().await;
                    request.approve("nobody")
                }
            }
        })
        .configure(|runtime| {
            runtime.limits(Limits {
                approval_wait: WAIT,
                open_approvals: UNANSWERED,
                ..Limits::default()
            })
        })
        .build()
        .await
        .unwrap();
    let before = resident();
    let begun = Instant::now();
    let calls: Vec<_> = (0..UNANSWERED)
        .map(|number| {
            let request = haft.request(
                "write",
                json!({ "path": format!("f{number}"), "content": "x" }),
            );
            let runtime = haft.runtime().clone();
            tokio::spawn(async move { runtime.call(request).await.facts.denied_by })
        })
        .collect();
    let mut expired = 0;
    for call in calls {
        expired += usize::from(call.await.unwrap() == Some(DeniedBy::Expired));
    }
    let (took, peak) = (begun.elapsed(), peak_since(before));
    println!(
        "{} asked, {expired} expired after {took:?}, {} MiB at most",
        asked.load(Ordering::Relaxed),
        peak >> 20
    );
    verdict.attempt(
        "they expire",
        check(expired == UNANSWERED, || {
            format!("{expired} of {UNANSWERED}")
        }),
    );
    verdict.attempt(
        "memory",
        check(peak < BYTES_EACH * UNANSWERED as u64, || {
            format!("{} MiB", peak >> 20)
        }),
    );
    let left = haft.runtime().in_flight();
    verdict.attempt("nothing is left", check(left == 0, || left.to_string()));
    let written = std::fs::read_dir(&scene.workspace).unwrap().count();
    verdict.attempt(
        "nothing is written",
        check(written == 0, || written.to_string()),
    );
    let outcome = haft.call("list", json!({ "path": "." })).await;
    verdict.twin(
        "a call that needs nobody",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    // Closing waits a while for the record; here it has all the time it needs.
    haft.runtime().flush().await.unwrap();
    haft.close().await.unwrap();
}
