//! AP-14: a process dies with SIGKILL between a person's yes and the start of the call, or just
//! after it. The next process makes the same call again, with nobody to ask: the yes serves at most
//! one effect, whichever process makes it, counted from outside.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use haft::{
    Limits,
    contract::{
        TenantId,
        host::{ApprovalId, ApprovalState, Clock as _, Ledger as _},
    },
    prelude::*,
};
use haft_runtime::SystemClock;

/// Where the process dies: two points before the start is on record, two after.
const POINTS: [&str; 4] = ["approval_answered", "admitted", "started", "running"];

/// Rounds: every point three times, or for long.
const FEW: usize = 3 * POINTS.len();
const MANY: usize = 200;

const DIRECTORY: &str = "HAFT_CRASH_APPROVAL_DIRECTORY";
const POINT: &str = "HAFT_CRASH_APPROVAL_POINT";

fn call() -> Value {
    json!({"command": "echo effect >> effects"})
}

fn builder(directory: &Path) -> haft::HaftBuilder {
    Haft::open(directory.join("workspace"))
        .data_dir(directory.join("data"))
        .preset(Preset::Careful)
        .sandbox("bash", SandboxMode::Off)
        .session("crash", SessionKind::Main)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "child: of the tests that kill it, told what to do by its environment"]
async fn child_that_dies_after_the_yes() {
    let directory = std::env::var(DIRECTORY).unwrap();
    let point = std::env::var(POINT).unwrap();
    let haft = builder(&PathBuf::from(directory))
        .approve_with(|request| async move { request.approve("person") })
        .on_event(move |happened| {
            if happened.event.kind() == point {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            }
        })
        .build()
        .await
        .unwrap();
    haft.call("bash", call()).await;
    unreachable!("the process died on the way");
}

/// One death and one call after it; how many effects there were, and how the second call ended.
async fn round(point: &str) -> (usize, Terminal) {
    // In memory: what survives is what was written, not what was synced; SIGKILL is no power cut.
    let folder = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let directory = folder.path();
    std::fs::create_dir(directory.join("workspace")).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .args([
            "crash_approvals::child_that_dies_after_the_yes",
            "--nocapture",
        ])
        .env(DIRECTORY, directory)
        .env(POINT, point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    // A child that fails otherwise, say in a panic of its own, has not died where it should.
    assert_eq!(status.signal(), Some(9), "the child dies at {point}");
    // A command that was started lives on for a moment when its runtime is killed.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let limits = Limits {
        approval_wait: Duration::from_millis(50),
        ..Limits::default()
    };
    let haft = builder(directory)
        .approve_with(|_| async { ApprovalAnswer::Elsewhere })
        .configure(|runtime| runtime.limits(limits))
        .build()
        .await
        .unwrap();
    let outcome = haft.call("bash", call()).await;
    haft.close().await.unwrap();
    let effects = std::fs::read_to_string(directory.join("workspace/effects"));
    (
        effects.unwrap_or_default().lines().count(),
        outcome.terminal,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: 12 processes that die, one after the other"]
async fn ap_14_kill_9_between_yes_and_start_never_makes_two_effects() {
    kill_around_the_start(FEW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 200 processes that die, one after the other"]
async fn soak_kill_9_between_yes_and_start() {
    kill_around_the_start(MANY).await;
}

async fn kill_around_the_start(rounds: usize) {
    let mut sum: BTreeMap<(&str, usize, Terminal), usize> = BTreeMap::new();
    for n in 0..rounds {
        let point = POINTS[n % POINTS.len()];
        let (effects, second) = round(point).await;
        assert!(effects <= 1, "{point}: {effects} effects");
        *sum.entry((point, effects, second)).or_default() += 1;
    }
    for ((point, effects, second), rounds) in &sum {
        println!("died at {point}: {rounds} rounds with {effects} effects, then {second}");
    }
    for point in ["approval_answered", "admitted"] {
        let served = sum.get(&(point, 1, Terminal::Succeeded)).copied();
        let rounds = rounds / POINTS.len();
        assert_eq!(
            served,
            Some(rounds),
            "an unused yes serves the next process: {sum:?}"
        );
    }
    for point in ["started", "running"] {
        let again = sum
            .keys()
            .any(|(at, _, second)| *at == point && *second == Terminal::Succeeded);
        assert!(!again, "a used yes serves nobody: {sum:?}");
    }
}

/// The process whose question is left behind.
#[tokio::test]
#[ignore = "child: of the test that starts it, told what to do by its environment"]
async fn child_that_dies_while_it_asks() {
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let asked = directory.join("asked");
    let host = Host::builder()
        .data_dir(directory.join("data"))
        .approve_with(move |request| {
            // The question is on record, and who finds it there has to know which it was.
            std::fs::write(&asked, request.id.to_string()).unwrap();
            async {
                let own = rustix::process::getpid();
                let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
                ApprovalAnswer::Elsewhere
            }
        })
        .build()
        .await
        .unwrap();
    let workspace = host.workspace(directory.join("workspace")).tenant("acme");
    let written = json!({"path": "a.txt", "content": "a"});
    workspace.haft().unwrap().call("write", written).await;
    unreachable!("the process died on the way");
}

/// AP-14: a host settles the calls of every tenant, so it withdraws the questions of each.
#[tokio::test]
async fn ap_14_questions_of_a_dead_process_are_withdrawn_for_every_tenant() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("workspace")).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact"])
        .arg("crash_approvals::child_that_dies_while_it_asks")
        .env(DIRECTORY, folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(9), "the child dies while it asks");
    let host = Host::builder().data_dir(folder.path().join("data"));
    let host = host.build().await.unwrap();
    let acme = TenantId::parse("acme").unwrap();
    assert_eq!(
        host.recovery().never_started.len(),
        1,
        "{:?}",
        host.recovery()
    );
    let approvals = host.ledger().approvals();
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    let asked = approvals
        .get(&acme, ApprovalId::parse(&asked).unwrap())
        .await;
    assert_eq!(asked.unwrap().unwrap().state, ApprovalState::Withdrawn);
    let open = approvals.pending(&acme, SystemClock.now(), 10).await;
    assert!(open.unwrap().is_empty());
    host.close().await.unwrap();
}
