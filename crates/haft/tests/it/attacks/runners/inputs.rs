//! RX-12 and RX-14: files and arguments that are larger than they should be.

use std::{
    fs,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft::prelude::*;
use haft_testkit::CpuTime;

use super::health::memory_during;
use crate::attacks::{
    attempt::{Verdict, calling, check, judge},
    corpus::Case,
    scene::{Said, Scene},
};

pub(super) async fn sparse(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    // As large as the file system allows, from one exbibyte down.
    let hole = fs::File::create(scene.at("hole")).unwrap();
    let size = (40..=60).rev().map(|bits| (1_u64 << bits) - 4096);
    let size = size
        .into_iter()
        .find(|size| hole.set_len(*size).is_ok())
        .unwrap();
    println!("a sparse file of {size} bytes");
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let calls = [
        calling("read", json!({ "path": "hole" }), "failed invalid_input"),
        calling(
            "edit",
            json!({ "path": "hole", "old_string": "a", "new_string": "b" }),
            "failed limit_exceeded",
        ),
        calling(
            "grep",
            json!({ "pattern": "x", "path": "hole" }),
            "succeeded",
        ),
        calling("list", json!({ "path": "." }), "succeeded"),
    ];
    let attack = async {
        let mut judged = Vec::new();
        for call in &calls {
            judged.push((call.tool.clone(), judge(&scene, &haft, &said, call).await));
        }
        judged
    };
    let (judged, memory) = memory_during(&haft, attack).await;
    for (tool, judged) in judged {
        verdict.attempt(&tool, judged);
    }
    verdict.attempt("memory", memory);
    fs::remove_file(scene.at("hole")).unwrap();

    // A file that grows as fast as it is read.
    let stop = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (stop, path) = (Arc::clone(&stop), scene.at("log"));
        move || {
            let mut log = fs::File::options().append(true).open(path).unwrap();
            let line = format!("{}\n", "x".repeat(1000)).repeat(100);
            while !stop.load(Ordering::Relaxed) {
                log.write_all(line.as_bytes()).unwrap();
                if log.metadata().unwrap().len() > 1 << 30 {
                    log.set_len(0).unwrap();
                }
            }
        }
    });
    // Whoever follows it to its end never comes back.
    let read = haft.call("read", json!({ "path": "log" })).await;
    let found = haft
        .call(
            "grep",
            json!({ "pattern": "x", "path": "log", "mode": "count" }),
        )
        .await;
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    verdict.attempt(
        "a growing file",
        check(read.succeeded() && read.text().len() < 200_000, || {
            read.model_text()
        }),
    );
    verdict.attempt(
        "a growing file",
        check(found.succeeded(), || found.model_text()),
    );
    fs::write(scene.at("log"), "first\n").unwrap();
    let whole = haft.call("read", json!({ "path": "log" })).await;
    verdict.twin(
        "a file that rests",
        check(whole.text().contains("first"), || whole.model_text()),
    );
    haft.close().await.unwrap();
}

pub(super) async fn json(case: &Case, verdict: &mut Verdict) {
    // Of CPU time, in a build without optimisation.
    const LIMIT: Duration = Duration::from_secs(10);
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let keys: Vec<String> = (0..1_000_000).map(|key| format!("\"k{key}\":1")).collect();
    let texts = [
        (
            "depth",
            format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
        ),
        (
            "deep objects",
            format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)),
        ),
        (
            "depth in a field",
            format!(
                "{{\"path\":{}{}}}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
        ),
        ("keys", format!("{{{}}}", keys.join(","))),
        (
            "duplicate keys",
            "{\"path\":\"own\",\"path\":\"../app-evil/secret\"}".to_owned(),
        ),
        (
            "a number out of range",
            "{\"path\":\"own\",\"limit\":1e400}".to_owned(),
        ),
        (
            "a long string",
            format!("{{\"path\":\"{}\"}}", "x".repeat(100_000_000)),
        ),
        ("cut off", "{\"path\":\"".to_owned()),
        ("a lone surrogate", "{\"path\":\"\\ud800\"}".to_owned()),
    ];
    for (what, text) in texts {
        let request = CallRequest::from_text("read", text, Arc::clone(haft.principal()));
        let cpu = CpuTime::start();
        let outcome = haft.runtime().call(request).await;
        let took = cpu.used();
        let kind = outcome.error.as_ref().map(|failure| failure.kind);
        let refused = matches!(
            kind,
            Some(ErrorKind::InvalidInput | ErrorKind::LimitExceeded)
        );
        verdict.attempt(
            what,
            check(refused, || {
                format!("{kind:?} {:.300}", outcome.model_text())
            }),
        );
        verdict.attempt(what, check(took < LIMIT, || format!("it took {took:?}")));
        let short = outcome.model_text().len() < 100_000;
        verdict.attempt(
            what,
            check(short, || "the answer repeats the input".to_owned()),
        );
    }
    // The same as a value, as deep as a caller's own parser lets through.
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = Value::Array(vec![deep]);
    }
    let arguments = Value::Object([("path".to_owned(), deep)].into_iter().collect());
    let outcome = haft.call("read", arguments).await;
    verdict.attempt(
        "a deep value",
        check(!outcome.succeeded(), || outcome.model_text()),
    );
    fs::write(scene.at("own"), "inside").unwrap();
    let request =
        CallRequest::from_text("read", "{\"path\":\"own\"}", Arc::clone(haft.principal()));
    let outcome = haft.runtime().call(request).await;
    verdict.twin(
        "plain JSON",
        check(outcome.text().contains("inside"), || outcome.model_text()),
    );
    haft.close().await.unwrap();
}
