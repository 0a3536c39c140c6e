//! Commands that want more of the machine than there should be: processes, memory, processors,
//! and archives that are larger than they look. Each is typed by the limit it met, and what runs
//! Haft stays well.

use std::time::{Duration, Instant};

use haft::{Haft, contract::ops::Limit, prelude::*};
use haft_sandbox::{
    Limits,
    cgroup::{CgroupName, CgroupParent, CgroupSetting, Controller},
};
use haft_testkit::PATIENCE;

use super::health::{Health, memory_during};
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    outside,
    scene::{Said, Scene},
};

/// The cgroups that `.ci/run` handed to this user, or whatever there is.
fn cgroup() -> CgroupSetting {
    std::env::var("HAFT_TEST_CGROUP")
        .ok()
        .and_then(|name| CgroupName::parse(&name))
        .map_or(CgroupSetting::Auto, CgroupSetting::Below)
}

async fn limited(case: &Case, limits: Limits) -> (std::sync::Arc<Scene>, Haft) {
    let scene = Scene::of(case);
    let mut local = scene.options(case);
    local.sandbox.limits = limits;
    local.sandbox.cgroup = cgroup();
    let haft = scene.haft_with(case, &Said::default(), local).await;
    (scene, haft)
}

/// The outcome names the limit, and is a failure of that kind.
fn exceeded(outcome: &Outcome, limit: Limit) -> Result<(), String> {
    let kind = outcome.error.as_ref().map(|failure| failure.kind);
    check(
        outcome.facts.exceeded == Some(limit) && kind == Some(ErrorKind::LimitExceeded),
        || {
            format!(
                "{:?} {kind:?}: {:.400}",
                outcome.facts.exceeded,
                outcome.model_text()
            )
        },
    )
}

/// Nothing in the process table has these words on its command line.
pub(super) async fn gone(words: &str) -> Result<(), String> {
    let begun = Instant::now();
    let bytes = words.replace(' ', "\0").into_bytes();
    loop {
        let found = std::fs::read_dir("/proc").unwrap().find_map(|entry| {
            let path = entry.unwrap().path().join("cmdline");
            let line = std::fs::read(&path).ok()?;
            let has = |part: &[u8]| memchr::memmem::find(&line, part).is_some();
            (has(&bytes) || has(words.as_bytes())).then_some(path)
        });
        let Some(path) = found else { return Ok(()) };
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} is still there", path.display()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn fork_bomb(case: &Case, verdict: &mut Verdict) {
    let limits = Limits {
        processes: 96,
        ..Limits::default()
    };
    let (scene, haft) = limited(case, limits).await;
    let word = scene.expand("bomb-<unique>");
    let bomb = format!("b() {{ b | b & : {word}; }}; b; sleep 2; exit 1");
    let arguments = json!({ "command": format!("bash -c '{bomb}' {word}"), "timeout_ms": 3_000 });
    let attack = async {
        let outcome = haft.call("bash", arguments).await;
        (outcome, gone(&word).await)
    };
    let ((outcome, gone), health) = Health::during(&haft, attack).await;
    let typed = outcome.facts.exceeded == Some(Limit::Processes);
    verdict.attempt("the limit", check(typed, || outcome.model_text()));
    verdict.attempt("the tree", gone);
    verdict.attempt("other calls", health.others());
    let many = json!({ "command": "for i in $(seq 60); do sleep 0.2 & done; wait; echo all" });
    let outcome = haft.call("bash", many).await;
    let all = outcome.succeeded() && outcome.text().contains("all");
    verdict.twin("sixty processes", check(all, || outcome.model_text()));
    haft.close().await.unwrap();
}

/// Where a cgroup counts, the outcome names the limit; elsewhere the kernel refuses each process
/// more, and the program itself says so.
fn memory_exceeded(outcome: &Outcome) -> Result<(), String> {
    let counted = CgroupParent::detect(&cgroup())
        .ok()
        .flatten()
        .is_some_and(|parent| parent.controllers().contains_key(&Controller::Memory));
    if counted {
        return exceeded(outcome, Limit::Memory);
    }
    println!("no cgroup here counts memory; each process has its own limit");
    check(outcome.model_text().contains("MemoryError"), || {
        outcome.model_text()
    })
}

pub(super) async fn memory(case: &Case, verdict: &mut Verdict) {
    let limits = Limits {
        memory_bytes: 192 << 20,
        tmp_bytes: 64 << 20,
        ..Limits::default()
    };
    let (_scene, haft) = limited(case, limits).await;
    for (what, program) in [
        (
            "one block",
            "x = bytearray(600 << 20); print('held', len(x))",
        ),
        (
            "piece by piece",
            "x = []\nfor _ in range(600): x.append(bytearray(1 << 20))\nprint('held', len(x))",
        ),
    ] {
        let command = format!("python3 -c \"{program}\"");
        let (outcome, memory) =
            memory_during(&haft, haft.call("bash", json!({ "command": command }))).await;
        let held = outcome.text().contains("held");
        verdict.attempt(what, check(!held, || outcome.model_text()));
        verdict.attempt(what, memory_exceeded(&outcome));
        verdict.attempt(what, memory);
    }
    let command = "python3 -c \"x = bytearray(60 << 20); print('held', len(x))\"";
    let outcome = haft.call("bash", json!({ "command": command })).await;
    let held = outcome.succeeded() && outcome.text().contains("held");
    verdict.twin("60 MiB", check(held, || outcome.model_text()));
    haft.close().await.unwrap();
}

pub(super) async fn spin(case: &Case, verdict: &mut Verdict) {
    let limits = Limits {
        cpu_time: Duration::from_secs(1),
        ..Limits::default()
    };
    let (_scene, haft) = limited(case, limits).await;
    let command = "(while :; do :; done) & while :; do :; done";
    let attack = haft.call("bash", json!({ "command": command, "timeout_ms": 60_000 }));
    let (outcome, health) = Health::during(&haft, attack).await;
    verdict.attempt("the limit", exceeded(&outcome, Limit::Cpu));
    verdict.attempt("other calls", health.others());
    let command = "for i in $(seq 20000); do :; done; echo counted";
    let outcome = haft.call("bash", json!({ "command": command })).await;
    verdict.twin(
        "a little work",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    haft.close().await.unwrap();
}

pub(super) async fn bombs(case: &Case, verdict: &mut Verdict) {
    let limits = Limits {
        file_bytes: 32 << 20,
        tmp_bytes: 32 << 20,
        ..Limits::default()
    };
    let (scene, haft) = limited(case, limits).await;
    let program = "import gzip, tarfile, io, zipfile\n\
                open('bomb.gz', 'wb').write(gzip.compress(bytes(10 << 20)) * 60)\n\
                z = zipfile.ZipFile('bomb.zip', 'w', zipfile.ZIP_DEFLATED); z.writestr('x', bytes(100 << 20)); z.close()\n\
                t = tarfile.TarInfo('x'); h = t.tobuf(); open('bomb.tar', 'wb').write(h * 20000 + bytes(1024))\n\
                n = gzip.compress(bytes(100 << 20))\n\
                for _ in range(3): n = gzip.compress(n)\n\
                open('nested.gz', 'wb').write(n)\n";
    std::fs::write(scene.at("make.py"), program).unwrap();
    let (made, text) = outside::run(
        "python3 make.py && echo small > s && gzip s",
        &scene.workspace,
    );
    verdict.control("the bombs", check(made, || text));
    for (what, command, limit) in [
        ("gunzip", "gunzip bomb.gz", Some(Limit::FileSize)),
        ("unzip", "unzip -o bomb.zip", Some(Limit::FileSize)),
        (
            "nested",
            "zcat nested.gz | zcat | zcat | zcat > /tmp/out",
            None,
        ),
        (
            "many members",
            "mkdir t && tar xf bomb.tar -C t && tar tf bomb.tar | wc -l",
            None,
        ),
        ("into nothing", "gunzip -c bomb.gz | wc -c", None),
    ] {
        let outcome = haft
            .call("bash", json!({ "command": command, "timeout_ms": 30_000 }))
            .await;
        let typed = match limit {
            Some(limit) => check(outcome.facts.exceeded == Some(limit), || {
                format!("{:?} {:.300}", outcome.facts.exceeded, outcome.model_text())
            }),
            None => Ok(()),
        };
        verdict.attempt(what, typed);
        let (_, text) = outside::run("find . -size +33M; df . > /dev/null", &scene.workspace);
        verdict.attempt(what, check(text.is_empty(), || text));
    }
    let outcome = haft
        .call("bash", json!({ "command": "gunzip s.gz && cat s" }))
        .await;
    let small = outcome.succeeded() && outcome.text().contains("small");
    verdict.twin("an honest archive", check(small, || outcome.model_text()));
    haft.close().await.unwrap();
}

pub(super) async fn slow_server(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    let word = scene.expand("slow-<unique>");
    let server = format!(
        "import socket, sys, time\n\
         s = socket.create_server(('127.0.0.1', 8767))\n\
         print('{word}', flush=True)\n\
         while True:\n    c, _ = s.accept()\n    c.sendall(b'HTTP/1.1 200 OK\\r\\n')\n    \
         while True:\n        c.sendall(b'x: y\\r\\n'); time.sleep(0.05)\n"
    );
    std::fs::write(scene.at("server.py"), server).unwrap();
    let command = format!(
        "python3 server.py {word} & until curl -s http://127.0.0.1:8767/; do sleep 0.05; done; echo ended"
    );
    let outcome = haft
        .call("bash", json!({ "command": command, "timeout_ms": 1_500 }))
        .await;
    let timed_out = outcome.terminal == Terminal::TimedOut;
    verdict.attempt("endless headers", check(timed_out, || outcome.model_text()));
    verdict.attempt("endless headers", gone(&word).await);
    let command = "python3 -m http.server 8768 --bind 127.0.0.1 & curl -s -o /dev/null --retry 10 \
                   --retry-connrefused --retry-delay 1 http://127.0.0.1:8768/ && echo fetched";
    let outcome = haft.call("bash", json!({ "command": command })).await;
    let fetched = outcome.text().contains("fetched");
    verdict.twin("a quick server", check(fetched, || outcome.model_text()));
    haft.close().await.unwrap();
}
