//! Disks that are full, trees without end, descriptors that run out, and what a flood leaves on
//! the disk.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

use haft::{Haft, Limits, prelude::*};
use haft_testkit::CpuTime;

use super::health::memory_during;
use crate::attacks::{
    attempt::{Verdict, calling, check, judge},
    corpus::{Case, Place},
    log, outside, place,
    scene::{Said, Scene},
};

/// RX-10: a workspace of 8 MiB, in a namespace where an unprivileged user may mount one.
pub(super) async fn full_disk(case: &Case, verdict: &mut Verdict) {
    if case.place == Place::T2 {
        return temporary(case, verdict).await;
    }
    let scene = Scene::of(case);
    let (mounted, text) = outside::run(
        &scene.expand("mount -t tmpfs -o size=8m,mode=755 none <ws>"),
        Path::new("/"),
    );
    verdict.control("a small disk", check(mounted, || text));
    let haft = scene.haft(case, &Said::default()).await;
    let content = "x".repeat(3 << 20);
    let mut kinds = Vec::new();
    for number in 0..4 {
        let arguments = json!({ "path": format!("f{number}"), "content": content });
        let outcome = haft.call("write", arguments).await;
        kinds.push(outcome.error.as_ref().map(|failure| failure.kind));
    }
    let typed = kinds.contains(&Some(ErrorKind::LimitExceeded));
    verdict.attempt("write", check(typed, || format!("{kinds:?}")));
    let command = "head -c 20000000 /dev/zero > big; echo code $?; rm -f big";
    let outcome = haft.call("bash", json!({ "command": command })).await;
    let told = outcome.text().contains("No space left") && outcome.text().contains("code 1");
    verdict.attempt("a command", check(told, || outcome.model_text()));
    // The record lies elsewhere and is still written: each call above is in it with its end.
    let outcome = haft.call("list", json!({ "path": "." })).await;
    let stored = haft
        .ledger()
        .call(&haft.principal().tenant, outcome.call)
        .await
        .unwrap();
    let ended = stored.and_then(|call| call.terminal) == Some(Terminal::Succeeded);
    verdict.attempt("the record", check(ended, || "not recorded".to_owned()));
    for number in 0..4 {
        let _ = fs::remove_file(scene.at(&format!("f{number}")));
    }
    let outcome = haft
        .call("write", json!({ "path": "small", "content": "x" }))
        .await;
    verdict.twin(
        "a small file",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    haft.close().await.unwrap();
    outside::run(&scene.expand("umount -l <ws>"), Path::new("/"));
}

/// The temporary directory of a sandbox has a size.
async fn temporary(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let mut local = scene.options(case);
    local.sandbox.limits.tmp_bytes = 16 << 20;
    let haft = scene.haft_with(case, &Said::default(), local).await;
    for directory in ["/tmp", "/dev/shm", "$HOME"] {
        let command =
            format!("head -c 40000000 /dev/zero > {directory}/big; stat -c %s {directory}/big");
        let outcome = haft.call("bash", json!({ "command": command })).await;
        let full = outcome.text().contains("No space left");
        verdict.attempt(directory, check(full, || outcome.model_text()));
    }
    haft.close().await.unwrap();
}

/// RX-11: 50,000 files side by side, and directories 10,000 deep. A walk opens every directory
/// from the root, so its time grows with the square of the depth; it is made where that is bearable.
pub(super) async fn many_files(case: &Case, verdict: &mut Verdict) {
    // Of CPU time, in a build without optimisation, with that of the callers beside it.
    const LIMIT: Duration = Duration::from_secs(20);
    let scene = Scene::in_memory(case);
    let script = "python3 -c \"import os\ntop = os.getcwd()\nos.mkdir('wide')\n\
                for n in range(50000): os.close(os.open('wide/%d' % n, os.O_CREAT))\n\
                for name, depth in ('deepest', 10000), ('deep', 1500):\n    os.chdir(top)\n    \
                for _ in range(depth): os.mkdir(name); os.chdir(name)\n    \
                open('bottom.txt', 'w').write('needle')\"";
    let (made, text) = outside::run(script, &scene.workspace);
    verdict.control("the trees", check(made, || text));
    let said = Said::default();
    let haft = scene.haft(case, &said).await;
    let calls = [
        ("list", json!({ "path": "." })),
        ("list", json!({ "path": ".", "depth": 20 })),
        (
            "find",
            json!({ "pattern": "**/bottom.txt", "path": "deep" }),
        ),
        ("find", json!({ "pattern": "9999*", "path": "wide" })),
        ("grep", json!({ "pattern": "needle", "path": "deep" })),
    ];
    let attack = async {
        let mut results = Vec::new();
        for (tool, arguments) in &calls {
            let cpu = CpuTime::start();
            let outcome = haft.call(*tool, arguments.clone()).await;
            results.push((*tool, outcome, cpu.used()));
        }
        results
    };
    let (results, memory) = memory_during(&haft, attack).await;
    for (tool, outcome, took) in results {
        println!("{tool}: {} in {took:?}", outcome.terminal);
        let short = outcome.model_text().len() < 200_000;
        verdict.attempt(tool, check(took < LIMIT && short, || format!("{took:?}")));
        verdict.attempt(tool, check(outcome.succeeded(), || outcome.model_text()));
    }
    verdict.attempt("memory", memory);
    let begun = Instant::now();
    let removal = json!({ "command": "rm -rf wide deep deepest; ls -A", "timeout_ms": 60_000 });
    let outcome = haft.call("bash", removal).await;
    println!("removed in {:?}", begun.elapsed());
    let left = fs::read_dir(&scene.workspace).unwrap().count();
    verdict.twin(
        "they can be removed",
        check(outcome.succeeded() && left == 0, || {
            format!("{left} left: {}", outcome.model_text())
        }),
    );
    haft.close().await.unwrap();
}

/// RX-22: this process, which was started for the case, has no descriptor left.
pub(super) async fn descriptors(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let said = Said::default();
    fs::write(scene.at("own"), "inside").unwrap();
    let haft = scene.haft(case, &said).await;
    let mut read = calling("read", json!({ "path": "own" }), "succeeded");
    read.shows = vec!["inside".to_owned()];
    verdict.twin("before", judge(&scene, &haft, &said, &read).await);

    let mut held = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
    }
    println!("{} descriptors held", held.len());
    for (tool, arguments) in [
        ("read", json!({ "path": "own" })),
        ("bash", json!({ "command": "echo started" })),
        ("write", json!({ "path": "new", "content": "x" })),
    ] {
        let outcome = haft.call(tool, arguments).await;
        let kind = outcome.error.as_ref().map(|failure| failure.kind);
        let typed = matches!(
            kind,
            Some(
                ErrorKind::LimitExceeded
                    | ErrorKind::Unavailable
                    | ErrorKind::Io
                    | ErrorKind::TierUnavailable
            )
        );
        verdict.attempt(
            tool,
            check(typed, || format!("{kind:?} {}", outcome.model_text())),
        );
    }
    drop(held);
    verdict.twin("afterwards", judge(&scene, &haft, &said, &read).await);
    let mut echo = calling("bash", json!({ "command": "echo again" }), "succeeded");
    echo.shows = vec!["again".to_owned()];
    verdict.twin("afterwards", judge(&scene, &haft, &said, &echo).await);
    haft.close().await.unwrap();

    if case.place == Place::T2 {
        let scene = Scene::of(case);
        let mut local = scene.options(case);
        local.sandbox.limits.open_files = 64;
        let haft = scene.haft_with(case, &Said::default(), local).await;
        let program = "f = [open('/dev/null') for _ in range(100)]; print('opened')";
        let command = format!("python3 -c \"{program}\"");
        let outcome = haft.call("bash", json!({ "command": command })).await;
        let stopped = outcome.model_text().contains("Too many open files");
        verdict.attempt("a command", check(stopped, || outcome.model_text()));
        haft.close().await.unwrap();
    }
}

/// RX-24: what is printed on standard error goes to the result, under a cap, and nowhere else.
pub(super) async fn stderr_flood(case: &Case, verdict: &mut Verdict) {
    const FLOOD: u64 = 64 << 20;
    const KEPT: u64 = 8 << 20;
    let scene = Scene::of(case);
    let mut limits = Limits::default();
    limits.output.artifact_bytes = KEPT;
    let haft = Haft::open(&scene.workspace)
        .data_dir(&scene.data)
        .preset(Preset::Workspace)
        .allow("@all")
        .sandbox("bash", place::mode(case.place))
        .configure(|runtime| runtime.limits(limits))
        .build()
        .await
        .unwrap();
    let logged = log::everything().len();
    let command = format!("yes 'error: something is wrong' | head -c {FLOOD} >&2; echo done");
    let outcome = haft.call("bash", json!({ "command": command })).await;
    let printed = outcome
        .structured
        .as_ref()
        .map(|output| output["stderr_bytes"].clone());
    verdict.attempt(
        "the count",
        check(printed == Some(json!(FLOOD)), || outcome.model_text()),
    );
    haft.close().await.unwrap();
    let grown = log::everything().len() - logged;
    verdict.attempt(
        "the log",
        check(grown < 1 << 20, || format!("{grown} bytes")),
    );
    let stored = size(&scene.data);
    println!("{FLOOD} bytes printed, {stored} stored, {grown} logged");
    verdict.attempt(
        "the disk",
        check(stored < 3 * KEPT, || format!("{stored} bytes")),
    );
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let outcome = haft
        .call("bash", json!({ "command": "echo warning >&2" }))
        .await;
    let told = outcome.text().contains("warning");
    verdict.twin("a warning", check(told, || outcome.model_text()));
    haft.close().await.unwrap();
}

/// Bytes on the disk beneath a directory.
fn size(directory: &Path) -> u64 {
    let mut waiting = vec![directory.to_owned()];
    let mut bytes = 0;
    while let Some(path) = waiting.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    bytes
}
