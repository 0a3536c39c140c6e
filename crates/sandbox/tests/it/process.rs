//! Processes: trees that do not want to die, pipes that do not close, parents of any size.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    ops::{ExitStatus, ProcessHandle, Spawn, Stream, Tier},
};
use haft_testkit::eventually;
use sha2::Digest as _;

use crate::workspace::{Workspace, at, refused};

fn script(text: &str) -> Spawn {
    Spawn::new(
        Command::Shell(text.to_owned()),
        WorkPath::root(),
        Tier::Host,
    )
}

fn argv(words: &[&str]) -> Spawn {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    Spawn::new(Command::Argv(words), WorkPath::root(), Tier::Host)
}

async fn start(ws: &Workspace, spawn: Spawn) -> Box<dyn ProcessHandle> {
    ws.backend
        .operations()
        .processes
        .spawn(spawn)
        .await
        .unwrap()
}

struct Ended {
    stdout: String,
    stderr: String,
    progress: String,
    status: ExitStatus,
}

async fn finish(child: &mut dyn ProcessHandle) -> Ended {
    let mut streams = [Vec::new(), Vec::new(), Vec::new()];
    while let Some(chunk) = child.next_chunk().await {
        let index = match chunk.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
            Stream::Progress => 2,
        };
        streams[index].extend_from_slice(&chunk.bytes);
    }
    let [stdout, stderr, progress] =
        streams.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ended {
        stdout,
        stderr,
        progress,
        status: child.wait().await.unwrap().status,
    }
}

async fn run(ws: &Workspace, spawn: Spawn) -> Ended {
    finish(&mut *start(ws, spawn).await).await
}

async fn line(child: &mut dyn ProcessHandle) -> String {
    let chunk = child.next_chunk().await.expect("output");
    String::from_utf8(chunk.bytes).unwrap().trim().to_owned()
}

/// Whether a process runs; one that has ended and is not reaped does not.
fn is_running(pid: &str) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat.rsplit(')').next().unwrap().trim().chars().next();
    state != Some('Z') && state != Some('X')
}

/// Whether a process is off the process table: not running, and no zombie either.
fn is_reaped(pid: &str) -> bool {
    !fs::exists(format!("/proc/{pid}")).unwrap()
}

async fn until_reaped(pid: &str) {
    eventually("it is reaped", || is_reaped(pid)).await;
}

async fn until_gone(pid: &str) {
    eventually("it is gone", || !is_running(pid)).await;
}

#[tokio::test]
async fn a_script_that_begins_with_a_dash_is_a_script() {
    let ws = Workspace::new();
    let ended = run(&ws, script("-x; echo reached")).await;
    assert!(ended.stdout.contains("reached"), "{}", ended.stderr);
}

#[tokio::test]
async fn no_start_up_file_is_read() {
    let ws = Workspace::new();
    for name in [".bashrc", ".profile", ".bash_profile"] {
        ws.put(name, "echo started");
    }
    let ended = run(
        &ws,
        script("echo $0 $#; shopt -q login_shell || echo plain"),
    )
    .await;
    assert_eq!(ended.stdout, "bash 0\nplain\n");
}

/// RX-05: a grandchild that holds the pipe for ever ends with the drain limit, and is killed.
#[tokio::test]
async fn rx_05_a_grandchild_that_holds_the_pipe_is_killed_after_the_drain_limit() {
    let ws = Workspace::new();
    let begun = Instant::now();
    let mut child = start(&ws, script("sleep 100000 & echo $! $$; exit 4")).await;
    let pids = line(&mut *child).await;
    let (sleeper, leader) = pids.split_once(' ').unwrap();
    let ended = finish(&mut *child).await;
    let took = begun.elapsed();
    assert!(took >= haft_sandbox::process::DRAIN_LIMIT, "{took:?}");
    assert_eq!(ended.status, ExitStatus::Code(4));
    until_gone(sleeper).await;
    assert!(is_reaped(leader));
}

/// RX-05: the same when the grandchild floods instead of being silent, and has left the session.
#[tokio::test]
async fn rx_05_a_grandchild_that_floods_is_killed_too() {
    let ws = Workspace::new();
    let mut child = start(&ws, script("setsid yes & echo $! >&2; exit 0")).await;
    let mut pid = String::new();
    while let Some(chunk) = child.next_chunk().await {
        if chunk.stream == Stream::Stderr {
            pid = String::from_utf8(chunk.bytes).unwrap().trim().to_owned();
        }
    }
    until_gone(&pid).await;
}

/// A consumer that is slow to read loses nothing of what was written before the end.
#[tokio::test]
async fn output_waits_for_a_slow_reader() {
    let ws = Workspace::new();
    let mut child = start(
        &ws,
        script("sleep 1000 & head -c 50000 /dev/zero; echo end"),
    )
    .await;
    assert_eq!(child.wait().await.unwrap().status, ExitStatus::Code(0));
    assert!(child.next_chunk().await.is_some());
    drop(child);

    let mut child = start(
        &ws,
        script("head -c 60000 /dev/zero; sleep 1000 & echo end >&2"),
    )
    .await;
    child.wait().await.unwrap();
    let first = child.next_chunk().await.unwrap();
    tokio::time::sleep(haft_sandbox::process::DRAIN_LIMIT + Duration::from_millis(200)).await;
    let second = child.next_chunk().await.unwrap();
    assert_eq!(first.bytes.len() + second.bytes.len(), 60004);
}

/// RX-06: a child that ignores SIGTERM, and one that is stopped, are killed after the grace.
#[tokio::test]
async fn rx_06_what_ignores_sigterm_is_killed() {
    let ws = Workspace::new();
    for text in [
        "trap '' TERM; echo $$; while true; do sleep 1; done",
        "echo $$; kill -STOP $$; sleep 1000",
    ] {
        let mut child = start(&ws, script(text)).await;
        let pid = line(&mut *child).await;
        child.stop(Duration::from_millis(200)).await.unwrap();
        assert!(is_reaped(&pid), "{text}");
        assert!(matches!(
            child.wait().await.unwrap().status,
            ExitStatus::Signal(_)
        ));
    }
}

/// RX-07: a child that sleeps for ever ends when it is told, so the grace is not waited for.
#[tokio::test]
async fn rx_07_a_sleeper_needs_no_grace() {
    let ws = Workspace::new();
    let mut child = start(&ws, script("echo $$; sleep inf")).await;
    let pid = line(&mut *child).await;
    child.stop(Duration::from_hours(1)).await.unwrap();
    assert!(!is_running(&pid));
}

/// Children that forked twice, left the session and were given to init are part of the tree.
#[tokio::test]
async fn stop_finds_double_forked_children_that_left_the_session() {
    let ws = Workspace::new();
    let text =
        "(setsid bash -c 'echo $$; trap \"\" TERM; sleep 1000 & wait; sleep 1000' &) ; sleep 1000";
    let mut child = start(&ws, script(text)).await;
    let escaped = line(&mut *child).await;
    assert!(is_running(&escaped));
    child.stop(Duration::from_millis(100)).await.unwrap();
    assert!(!is_running(&escaped), "a daemon outlived the stop");
}

/// Dropping a handle: the same, behind the caller's back.
#[tokio::test]
async fn drop_kills_the_whole_tree_and_leaves_no_zombie() {
    let ws = Workspace::new();
    let text = "echo $$ > leader; (setsid bash -c 'echo $$; sleep 1000' &) ; sleep 1000 & wait";
    let mut child = start(&ws, script(text)).await;
    let escaped = line(&mut *child).await;
    drop(child);
    until_gone(&escaped).await;
    until_reaped(ws.text("leader").trim()).await;
}

/// A spawn that nobody waits for any more leaves nothing running.
#[tokio::test]
async fn a_dropped_spawn_leaves_nothing_running() {
    let ws = Workspace::new();
    let operations = ws.backend.operations();
    {
        let spawning = operations
            .processes
            .spawn(script("echo $$ > started; exec sleep 1000"));
        tokio::pin!(spawning);
        // Polled once, so that the work begins; then dropped.
        let _ = futures_poll_once(spawning.as_mut()).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // One that was ended before it wrote anything has ended.
    let started = fs::read_to_string(ws.root.join("started")).unwrap_or_default();
    if let Some(pid) = started.lines().next() {
        until_reaped(pid).await;
    }
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Mistake 4: no zombies, however many children, and no descriptor is lost.
#[tokio::test]
async fn mistake_04_many_children_leave_no_zombies_and_no_descriptors() {
    let ws = Workspace::new();
    run(&ws, script("true")).await;
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..100 {
        let ended = run(&ws, script("echo $$; exit 7")).await;
        assert_eq!(ended.status, ExitStatus::Code(7));
        assert!(is_reaped(ended.stdout.trim()));
    }
    // Other tests of this process may have some open.
    assert!(descriptors() < before + 50, "descriptors were lost");
}

/// RX-03: floods on both streams at once; neither starves the other.
#[tokio::test]
async fn rx_03_floods_on_both_streams_do_not_deadlock() {
    let ws = Workspace::new();
    let text = "head -c 8000000 /dev/zero & head -c 8000000 /dev/zero >&2 & wait";
    let ended = run(&ws, script(text)).await;
    assert_eq!(
        (ended.stdout.len(), ended.stderr.len()),
        (8_000_000, 8_000_000)
    );
}

/// A child holds no descriptor of ours, has its own session, and default signals.
#[tokio::test]
async fn a_child_inherits_nothing() {
    let ws = Workspace::new();
    let _held = fs::File::open(ws.outside.join("secret")).unwrap();
    let ended = run(&ws, argv(&["ls", "/proc/self/fd"])).await;
    assert_eq!(ended.stdout, "0\n1\n2\n3\n", "3 is the listing itself");
    let ended = run(&ws, script("grep -E 'Sig(Blk|Ign)' /proc/self/status")).await;
    for set in ended.stdout.lines() {
        // 32 and 33 belong to the C library, which ignores them while it spawns.
        let bits = u64::from_str_radix(set.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(bits & 0x7fff_ffff, 0, "{set}");
    }
    let ended = run(&ws, script("ps -o sid= -p $$; echo $$")).await;
    let ids: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_child_starts_in_its_directory() {
    let ws = Workspace::new();
    ws.put("sub/file", "x");
    let mut spawn = argv(&["pwd"]);
    spawn.cwd = at("sub");
    let ended = run(&ws, spawn).await;
    assert_eq!(ended.stdout.trim(), ws.root.join("sub").to_str().unwrap());
}

fn program(ws: &Workspace, text: &str) -> (String, [u8; 32]) {
    let path = ws.outside.join("program");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (
        path.to_str().unwrap().to_owned(),
        sha2::Sha256::digest(text).into(),
    )
}

/// R8: a pinned program runs when its hash is right, and never when it is not.
#[tokio::test]
async fn a_pinned_script_runs_only_with_its_hash() {
    let ws = Workspace::new();
    let text = "#!/bin/bash\necho \"hello $1\"; cat; echo step >&3\n";
    let (path, hash) = program(&ws, text);
    let mut spawn = argv(&[&path, "world"]);
    spawn.pinned = Some(hash);
    spawn.input = haft_contract::ops::Input::Bytes(b"input".to_vec());
    spawn.progress_channel = true;
    let ended = run(&ws, spawn.clone()).await;
    assert_eq!(ended.stdout, "hello world\ninput", "{}", ended.stderr);
    assert_eq!(ended.progress, "step\n");

    fs::write(&path, text.replace("hello", "evil!")).unwrap();
    let started = ws.backend.operations().processes.spawn(spawn).await;
    refused(started.map(drop), ErrorKind::AccessDenied);
}

/// R8: what was checked is what runs, also when the file is rewritten at the same moment.
#[tokio::test]
async fn a_pinned_program_rewritten_in_place_never_runs_the_new_text() {
    let ws = Workspace::new();
    let good = "#!/bin/sh\necho good\n";
    let evil = "#!/bin/sh\necho evil\n";
    let (path, hash) = program(&ws, good);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (stop, path) = (std::sync::Arc::clone(&stop), path.clone());
        move || {
            use std::os::unix::fs::FileExt;
            let file = fs::File::options().write(true).open(path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all_at(evil.as_bytes(), 0).unwrap();
                file.write_all_at(good.as_bytes(), 0).unwrap();
            }
        }
    });
    let (mut ran, mut rounds) = (0, 0);
    // Until it ran, where the writer is always in the way.
    while rounds < 200 || (ran == 0 && rounds < 20_000) {
        rounds += 1;
        let mut spawn = argv(&[&path]);
        spawn.pinned = Some(hash);
        if let Ok(mut child) = ws.backend.operations().processes.spawn(spawn).await {
            assert_eq!(finish(&mut *child).await.stdout, "good\n");
            ran += 1;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    assert!(ran > 0, "it never ran, so nothing was shown");
}

/// A pinned binary, not only a script.
#[tokio::test]
async fn a_pinned_binary_runs() {
    let ws = Workspace::new();
    let path = fs::canonicalize("/bin/echo").unwrap();
    let hash = sha2::Sha256::digest(fs::read(&path).unwrap());
    let mut spawn = argv(&[path.to_str().unwrap(), "binary"]);
    spawn.pinned = Some(hash.into());
    assert_eq!(run(&ws, spawn).await.stdout, "binary\n");
}

/// Starting a child costs the same from a parent of 512 MB. A fork would copy its page tables:
/// tens of milliseconds.
#[tokio::test]
async fn a_large_parent_starts_children_as_fast_as_a_small_one() {
    let ws = Workspace::new();
    let small = best(&ws).await;
    let mut ballast = vec![1_u8; 512 << 20];
    for page in ballast.chunks_mut(4096) {
        page[0] = 2;
    }
    let large = best(&ws).await;
    std::hint::black_box(&ballast);
    println!("spawn: {small:?} with a small parent, {large:?} with 512 MB");
    assert!(
        large < small * 3 + Duration::from_millis(3),
        "{small:?} grew to {large:?}"
    );
}

/// The shortest time a child took to start.
async fn best(ws: &Workspace) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..15 {
        let begun = Instant::now();
        let mut child = start(ws, argv(&["/bin/true"])).await;
        best = best.min(begun.elapsed());
        finish(&mut *child).await;
    }
    best
}

/// A daemon that let go of everything does not outlive a call that ended well: neither a brief one
/// nor one that ran longer.
#[tokio::test]
async fn rx_daemon_does_not_outlive_a_call_that_ended_well() {
    let ws = Workspace::new();
    for pause in ["0", "0.7"] {
        let text = format!(
            "setsid sleep 54321 </dev/null >/dev/null 2>&1 & echo $!; disown; sleep {pause}"
        );
        let ended = run(&ws, script(&text)).await;
        assert_eq!(ended.status, ExitStatus::Code(0));
        let daemon = ended.stdout.trim();
        assert!(!daemon.is_empty());
        assert!(!is_running(daemon), "{daemon} outlived its call");
    }
}
