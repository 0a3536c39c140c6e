//! What data cannot say of a sandbox: processes that outlive their call, layers that are missing,
//! two sandboxes at once.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft::{
    Haft, LocalBackend, Preset,
    contract::{
        WorkPath,
        access::Command,
        egress::{EgressRules, HostRule},
        ops::{Spawn, Tier},
    },
    prelude::*,
};
use haft_sandbox::{PROXY_SOCKET, helper::Helper};
use haft_testkit::eventually;

use super::limits::gone;
use crate::attacks::{
    attempt::{Verdict, check},
    corpus::Case,
    outside,
    scene::{Said, Scene},
    stage,
};

/// How long the probe's daemon lives if nobody ends it.
const LIFETIME: Duration = Duration::from_secs(100);

async fn open(case: &Case) -> (Arc<Scene>, Haft) {
    let scene = Scene::of(case);
    let haft = scene.haft(case, &Said::default()).await;
    (scene, haft)
}

/// SB-13: whatever is stopped inside, the call ends at its deadline.
pub(super) async fn frozen_init(case: &Case, verdict: &mut Verdict) {
    let (scene, haft) = open(case).await;
    for (what, script) in [
        ("stop the init", "kill -STOP 1; sleep 100000"),
        (
            "stop everything",
            "trap '' TERM; kill -STOP -1; sleep 100000",
        ),
        (
            "stop itself in a session of its own",
            "setsid bash -c 'kill -STOP $$' & sleep 100000",
        ),
    ] {
        let word = scene.expand("frozen-<unique>");
        let arguments = json!({ "command": format!("{script} # {word}"), "timeout_ms": 1_000 });
        let outcome = haft.call("bash", arguments).await;
        let timed_out = outcome.terminal == Terminal::TimedOut;
        verdict.attempt(what, check(timed_out, || outcome.model_text()));
        verdict.attempt(what, gone(&word).await);
    }
    haft.close().await.unwrap();
}

/// SB-29: a name that is protected appears although the look at its text was deceived, and programs
/// of the workspace do not run on the host.
pub(super) async fn left_for_later(case: &Case, verdict: &mut Verdict) {
    // Another thread changes the name between the look at it and its use.
    let race = "import ctypes, os, threading\n\
                libc = ctypes.CDLL(None, use_errno=True)\n\
                name = ctypes.create_string_buffer(b'.bashrX')\n\
                stop = False\n\
                def flip():\n    while not stop:\n        name[6] = b'c'; name[6] = b'X'\n\
                t = threading.Thread(target=flip); t.start()\n\
                won = 0\n\
                for _ in range(3000):\n    fd = libc.open(name, os.O_CREAT | os.O_WRONLY, 0o600)\n    \
                if fd >= 0: os.close(fd)\n    won += os.path.exists('.bashrc')\n\
                stop = True; t.join()\n\
                print('won', won)\n";
    let (scene, haft) = open(case).await;
    std::fs::write(scene.at("race.py"), race).unwrap();
    let outcome = haft
        .call(
            "bash",
            json!({ "command": "python3 race.py", "timeout_ms": 60_000 }),
        )
        .await;
    println!("SB-29: the race: {:.200}", outcome.text());
    // A race that did not take place, say because there is no Python, shows nothing.
    let held = outcome.text().contains("won ") && !scene.at(".bashrc").exists();
    verdict.attempt("a race for the name", check(held, || outcome.model_text()));
    haft.close().await.unwrap();
}

/// SB-30: nothing outlives its call.
pub(super) async fn daemons(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let word = scene.expand("control-<unique>");
    // It runs when the one that started it returns.
    let script = scene.expand(&format!("<probe> daemon {word} 100"));
    outside::run(&script, &scene.workspace);
    // The brackets, so that it does not find itself.
    let (first, rest) = word.split_at(1);
    let (ended, text) = outside::run(&format!("pkill -f '[{first}]{rest}'"), &scene.workspace);
    verdict.control("a daemon", check(ended, || text));
    let (scene, haft) = open(case).await;
    for (what, script) in [
        ("a daemon", "<probe> daemon WORD 100"),
        (
            "forked twice",
            "(setsid bash -c 'sleep 100000 # WORD' &) & disown; echo left",
        ),
        (
            "nohup",
            "nohup bash -c 'sleep 100000 # WORD' > /dev/null 2>&1 & disown; echo left",
        ),
        (
            "at and systemd-run",
            "echo 'sleep 100000 # WORD' | at now; systemd-run --user bash -c 'sleep 100000 # WORD'; true",
        ),
    ] {
        let word = scene.expand("daemon-<unique>");
        let begun = Instant::now();
        let command = scene.expand(script).replace("WORD", &word);
        let outcome = haft.call("bash", json!({ "command": command })).await;
        verdict.attempt(what, check(outcome.succeeded(), || outcome.model_text()));
        verdict.attempt(what, gone(&word).await);
        // Or it may have ended by itself.
        let took = begun.elapsed();
        verdict.attempt(what, check(took < LIFETIME, || format!("{took:?}")));
    }
    haft.close().await.unwrap();
}

/// SB-31: a port that is kept is the sandbox's own.
pub(super) async fn daemon_on_a_port(case: &Case, verdict: &mut Verdict) {
    let free = || {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        socket.local_addr().unwrap().port()
    };
    let scene = Scene::of(case);
    let (port, word) = (free(), scene.expand("control-<unique>"));
    let script = scene.expand(&format!("<probe> daemon-on-port {word} 100 {port}"));
    outside::run(&script, &scene.workspace);
    let open_there = TcpStream::connect(("127.0.0.1", port)).map(drop);
    verdict.control("a port", open_there.map_err(|error| error.to_string()));
    let (first, rest) = word.split_at(1);
    outside::run(&format!("pkill -f '[{first}]{rest}'"), &scene.workspace);
    let (scene, haft) = open(case).await;
    let (port, word) = (free(), scene.expand("port-<unique>"));
    let command = scene.expand(&format!(
        "<probe> daemon-on-port {word} 100 {port}; sleep 1"
    ));
    let begun = Instant::now();
    let call = haft.call("bash", json!({ "command": command }));
    let (outcome, seen) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    verdict.attempt(
        "while it runs",
        check(!seen, || "the port is open".to_owned()),
    );
    verdict.attempt(
        "afterwards",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    verdict.attempt("afterwards", gone(&word).await);
    let took = begun.elapsed();
    verdict.attempt("afterwards", check(took < LIFETIME, || format!("{took:?}")));
    let after = TcpListener::bind(("127.0.0.1", port));
    verdict.attempt(
        "afterwards",
        check(after.is_ok(), || "the port is taken".to_owned()),
    );
    haft.close().await.unwrap();
}

/// SB-34: the program that sets up a sandbox is missing; and, in a namespace of its own, bubblewrap
/// is nobody's and no further namespaces are available.
pub(super) async fn missing_layer(case: &Case, verdict: &mut Verdict) {
    if stage::is_staged() {
        return no_namespaces(case, verdict).await;
    }
    let (_scene, haft) = open(case).await;
    let outcome = haft.call("bash", json!({ "command": "echo fine" })).await;
    let fine = outcome.succeeded() && outcome.facts.tier == Some(Tier::T2);
    verdict.twin("every layer", check(fine, || outcome.model_text()));
    haft.close().await.unwrap();
    for helper in [
        Helper::Path(PathBuf::from("/nonexistent/haft-helper")),
        Helper::Path(PathBuf::from("/bin/true")),
    ] {
        let scene = Scene::of(case);
        let mut local = scene.options(case);
        local.sandbox.helper = helper.clone();
        let haft = scene.haft_with(case, &Said::default(), local).await;
        refused(&scene, &haft, &format!("{helper:?}"), verdict).await;
    }
    let apart = Case {
        id: case.id.clone(),
        namespace: true,
        ..toml::from_str("").unwrap()
    };
    verdict.add(stage::run(&apart, "attacks::sb_01_to_sb_46_sandbox_escape"));
}

async fn no_namespaces(case: &Case, verdict: &mut Verdict) {
    let (scene, haft) = open(case).await;
    refused(&scene, &haft, "bubblewrap is not root's", verdict).await;
    let (switched, text) = outside::run(
        "echo 0 > /proc/sys/user/max_user_namespaces && ! unshare -U true",
        Path::new("/"),
    );
    verdict.control("user namespaces are switched off", check(switched, || text));
    let (scene, haft) = open(case).await;
    refused(&scene, &haft, "no user namespaces", verdict).await;
}

/// A command is refused with its reason, and does not run in something weaker.
async fn refused(scene: &Scene, haft: &Haft, what: &str, verdict: &mut Verdict) {
    let outcome = haft
        .call("bash", json!({ "command": "echo ran > mark" }))
        .await;
    let kind = outcome.error.as_ref().map(|failure| failure.kind);
    verdict.attempt(
        what,
        check(kind == Some(ErrorKind::TierUnavailable), || {
            format!("{kind:?} {}", outcome.model_text())
        }),
    );
    let ran = scene.at("mark").exists();
    verdict.attempt(what, check(!ran, || "it ran".to_owned()));
    haft.close().await.unwrap();
}

/// SB-35: the workspace's own `bwrap` comes first in the search path.
pub(super) async fn other_bwrap(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let mut local = scene.options(case);
    local.search_path = format!("{}:{}", scene.at("bin").display(), local.search_path);
    let haft = scene.haft_with(case, &Said::default(), local).await;
    let outcome = haft
        .call("bash", json!({ "command": "echo confined" }))
        .await;
    let fine = outcome.succeeded() && outcome.facts.tier == Some(Tier::T2);
    verdict.twin("the real one", check(fine, || outcome.model_text()));
    let used = scene.at("used").exists();
    verdict.attempt("the other one", check(!used, || "it was used".to_owned()));
    haft.close().await.unwrap();
}

/// SB-37: one sandbox looks for another that runs beside it.
pub(super) async fn two_tenants(case: &Case, verdict: &mut Verdict) {
    let (mine, other) = (Scene::of(case), Scene::of(case));
    let haft = mine.haft(case, &Said::default()).await;
    let theirs = other.haft(case, &Said::default()).await;
    let word = other.expand("tenant-<unique>");
    std::fs::write(other.at("private"), &other.canary).unwrap();
    let server = "import socket, sys, time\n\
                  a = socket.socket(socket.AF_UNIX); a.bind('/tmp/s'); a.listen()\n\
                  b = socket.socket(socket.AF_UNIX); b.bind('\\0' + sys.argv[1]); b.listen()\n\
                  c = socket.create_server(('127.0.0.1', 8770))\n\
                  open('/tmp/' + sys.argv[1], 'w').write('x'); open('/dev/shm/' + sys.argv[1], 'w').write('x')\n\
                  open('ready', 'w').write('x'); time.sleep(600)\n";
    std::fs::write(other.at("server.py"), server).unwrap();
    let request = theirs.request(
        "bash",
        json!({ "command": format!("python3 server.py {word}") }),
    );
    let id = request.id;
    let look = format!(
        "ps -ef | grep -v grep; cat /proc/*/cmdline | tr '\\0' ' '; ls /tmp /dev/shm; pkill -f 'server[.]py' && echo sig''nalled; \
         python3 - <<'EOF'\nimport socket\n\
         for kind, address in ((socket.AF_UNIX, '/tmp/s'), (socket.AF_UNIX, '\\0{word}'), (socket.AF_INET, ('127.0.0.1', 8770))):\n    \
         s = socket.socket(kind)\n    try: s.connect(address); print('con' + 'nected')\n    except OSError as e: print(e)\nEOF\n\
         cat {}; echo x > {}; true",
        other.at("private").display(),
        other.at("private").display()
    );
    let (first, second) = tokio::join!(theirs.runtime().call(request), async {
        eventually("the other runs", || other.at("ready").exists()).await;
        let outcome = haft.call("bash", json!({ "command": look })).await;
        let alive = theirs.runtime().in_flight() == 1;
        theirs.runtime().cancel(id);
        (outcome, alive)
    });
    let (outcome, alive) = second;
    let text = outcome.text();
    verdict.attempt(
        "looking",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    for found in ["server.py", "signalled", "connected", other.canary.as_str()] {
        // The command that looks is in its own process list.
        let found = text
            .lines()
            .any(|line| line.contains(found) && !line.contains("pkill"));
        verdict.attempt("what it found", check(!found, || text.clone()));
    }
    verdict.attempt("the other lives", check(alive, || first.model_text()));
    let kept = std::fs::read_to_string(other.at("private")).unwrap() == other.canary;
    verdict.attempt("the other's file", check(kept, || "changed".to_owned()));
    haft.close().await.unwrap();
    theirs.close().await.unwrap();
    // With nothing between them one sees the other, so the looking is real.
    let (_, text) = outside::run(
        "python3 -c \"import socket, time; s = socket.create_server(('127.0.0.1', 8771)); time.sleep(600)\" & \
         for try in $(seq 1000); do python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8771)); print('connected')\" && break; sleep 0.05; done; \
         pgrep -f 8771; kill %1",
        &mine.workspace,
    );
    verdict.control(
        "without a sandbox",
        check(text.contains("connected"), || text.clone()),
    );
}

/// SB-10: the proxy's socket is a stream of bytes. What is sent beside them is dropped by the kernel
/// when the proxy reads, and nothing is ever sent beside its answers.
pub(super) async fn proxy_descriptors(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let rules = EgressRules {
        allow: vec![HostRule::parse("example.com").unwrap()],
        deny: Vec::new(),
    };
    let haft = Haft::open(&scene.workspace)
        .data_dir(&scene.data)
        .local(scene.options(case))
        .preset(Preset::Workspace)
        .allow("@all")
        .sandbox("bash", SandboxMode::Full)
        .configure(|runtime| runtime.egress(rules))
        .build()
        .await
        .unwrap();
    let there = json!({ "command": format!("test -S {PROXY_SOCKET} && echo there") });
    let outcome = haft.call("bash", there).await;
    let there = outcome.text().contains("there");
    verdict.control("the socket", check(there, || outcome.model_text()));
    let before = descriptors();
    let command = scene.expand(&format!(
        "for i in $(seq 40); do <probe> descriptor-send {PROXY_SOCKET}; done; sleep 0.3"
    ));
    let call = haft.call("bash", json!({ "command": command }));
    let (outcome, during) = tokio::join!(call, async {
        tokio::time::sleep(Duration::from_millis(250)).await;
        descriptors()
    });
    verdict.attempt(
        "sending",
        check(outcome.succeeded(), || outcome.model_text()),
    );
    let after = descriptors();
    // Forty were sent. While it runs, the call itself has a few; afterwards the record may.
    verdict.attempt(
        "sending",
        check(after < before + 20 && during < before + 60, || {
            format!("{before} descriptors before, {during} while, {after} after")
        }),
    );
    for request in [
        "CONNECT example.com:443 HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "\u{5}\u{1}",
    ] {
        let command = scene.expand(&format!(
            "<probe> descriptor-receive {PROXY_SOCKET} $'{}'; true",
            request.escape_default()
        ));
        let outcome = haft.call("bash", json!({ "command": command })).await;
        let none =
            outcome.text().contains("descriptor") && !outcome.text().contains("descriptors came");
        verdict.attempt("receiving", check(none, || outcome.model_text()));
    }
    haft.close().await.unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// SB-38: gVisor is used where it was asked for, or the command is refused; never something weaker.
pub(super) async fn gvisor(case: &Case, verdict: &mut Verdict) {
    let scene = Scene::of(case);
    let (_, outside) = outside::run("cat /proc/version", &scene.workspace);
    let linux = outside.contains("Linux") && !outside.contains("gVisor");
    verdict.control("the machine's kernel", check(linux, || outside));
    let backend = LocalBackend::open(&scene.workspace, scene.options(case)).unwrap();
    let operations = backend.operations();
    let script = scene.expand("dmesg; cat /proc/version; ls <outside> /root; echo ran > mark");
    let spawn = Spawn::new(Command::Shell(script), WorkPath::root(), Tier::T3);
    let spawned = operations.processes.spawn(spawn).await;
    if operations.tiers.contains(&Tier::T3) {
        let mut child = spawned.unwrap();
        let mut printed = Vec::new();
        while let Some(chunk) = child.next_chunk().await {
            printed.extend(chunk.bytes);
        }
        let text = String::from_utf8_lossy(&printed).into_owned();
        verdict.attempt(
            "the kernel",
            check(text.contains("gVisor"), || text.clone()),
        );
        let seen = text.contains("id_rsa") || text.contains("secret\n");
        verdict.attempt("the machine's files", check(!seen, || text.clone()));
    } else {
        let kind = spawned.err().map(|error| error.kind());
        verdict.attempt(
            "a tier that is not there",
            check(kind == Some(ErrorKind::TierUnavailable), || {
                format!("{kind:?}")
            }),
        );
        let ran = scene.at("mark").exists();
        verdict.attempt(
            "a tier that is not there",
            check(!ran, || "it ran".to_owned()),
        );
    }
}
