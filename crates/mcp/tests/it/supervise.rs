//! Supervised servers that are real processes: what the bad ones do does not reach the good ones.

use haft_mcp::upstream::owner::CredentialOwner;
use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{WorkPath, ops::Tier};
use haft_mcp::{
    client::Clients,
    mounts::CHANGES_KEPT,
    name::{ServerId, ToolNaming},
    pin::{Filter, MemoryStore, Origin},
    upstream::{
        ClientIntroduction,
        connection::{ProtocolEra, Request, Server},
        mounted::MountedToolMaker,
        stdio::{ServerCommand, StdioConnector},
        supervise::{Fleet, Mount, Options, State, Status, SupervisorDefaults, UnseenServer},
        tool::ToolMounting,
    },
};
use haft_runtime::{SystemClock, registry::Registry};
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::house::{accept, until_accepted};

const SERVER: &str = include_str!("../fixtures/plain.py");

/// How often every good server is called in a round.
const CALLS: usize = 200;

/// Between two of these, so that a round spans several failures of the bad ones.
const PAUSE: Duration = Duration::from_millis(5);

/// How often it is measured before it counts as slow. On a machine that does other things, the slowest
/// hundredth is sometimes somebody else's doing; if it is Haft's, it is so every time.
const ATTEMPTS: usize = 5;

/// How much slower the slowest hundredth may be among bad servers.
const SLOWER: u32 = 2;

/// How long anything that must come about is waited for.
const COMES_TO_BE: Duration = haft_testkit::PATIENCE;

/// Of ten servers three hang (two at the start, one in every call), three exit (two at the start, one
/// with every call) and one speaks garbage.
const BAD: [&str; 7] = [
    "hangs", "hangs", "deaf", "exits", "exits", "dies", "garbage",
];

/// Those of the bad ones that seem good until they are called.
const SEEM_GOOD: [&str; 2] = ["deaf", "dies"];

struct Place {
    folder: tempfile::TempDir,
    backend: LocalBackend,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plain.py"), SERVER).unwrap();
    let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
    Place { folder, backend }
}

fn id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

fn origin() -> Origin {
    Origin::new(json!({"command": ["fixture"]}))
}

fn mount(place: &Place, server: &str, how: &str) -> Mount {
    let script = place.folder.path().join("plain.py");
    let command = ServerCommand {
        argv: vec!["python3".into(), script.display().to_string(), how.into()],
        cwd: WorkPath::root(),
        environment: [].into(),
        tier: Tier::Host,
        egress: None,
        pinned: None,
    };
    let introduction = ClientIntroduction {
        only: Some(ProtocolEra::Legacy),
        ..ClientIntroduction::default()
    };
    let processes = place.backend.operations().processes;
    Mount {
        server: id(server),
        naming: ToolNaming::Prefixed,
        filter: Filter::default(),
        origin: origin(),
        owner: CredentialOwner::local(),
        connect: Arc::new(StdioConnector::new(processes, command, introduction)),
        make: Arc::new(MountedToolMaker(ToolMounting::new(
            Arc::<Clients>::default(),
        ))),
        options: Options {
            start_timeout: COMES_TO_BE,
            ..Options::default()
        },
    }
}

fn shared() -> SupervisorDefaults {
    SupervisorDefaults {
        store: Arc::new(MemoryStore::default()),
        registry: Arc::new(Registry::new()),
        clock: Arc::new(SystemClock),
        changes: broadcast::channel(CHANGES_KEPT).0,
    }
}

async fn ready(fleet: &Fleet, shared: &SupervisorDefaults, servers: &[String]) {
    let mut count = 0;
    for server in servers {
        let server = id(server);
        fleet.reach(&server).await.unwrap();
        count += accept(&*shared.store, &server, &origin());
    }
    until_accepted(fleet, count).await;
}

fn say() -> Request {
    Request {
        principal: haft_testkit::principal(),
        method: "tools/call",
        parameters: json!({"name": "say", "arguments": {"text": "x"}}),
        deadline: COMES_TO_BE,
        progress: None,
        client: None,
    }
}

/// How long calls of good servers took, one call at a time each.
async fn measured(fleet: &Fleet, servers: &[String]) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        for server in servers {
            let server = fleet.server(&id(server)).unwrap();
            let began = Instant::now();
            server
                .request(say(), &CancellationToken::new())
                .await
                .unwrap();
            took.push(began.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
    took
}

/// Keeps calling a server that is no good, until cancelled.
async fn call_in_vain(server: Arc<dyn Server>, cancel: CancellationToken) {
    while !cancel.is_cancelled() {
        let failed = server.request(say(), &cancel).await;
        assert!(failed.is_err(), "{failed:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Programs that do on this machine what bad servers do, and are mounted by nobody: what a round
/// without bad servers is measured beside, so that the difference is Haft's and not the price of
/// starting Python.
struct Strangers {
    over: Arc<AtomicBool>,
    running: Vec<thread::JoinHandle<()>>,
}

impl Strangers {
    fn start(place: &Place) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let running = BAD.iter().map(|how| {
            let (how, over) = ((*how).to_owned(), Arc::clone(&over));
            let script = place.folder.path().join("plain.py");
            thread::spawn(move || stranger(&script, &how, &over))
        });
        let running = running.collect();
        Self { over, running }
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for stranger in self.running {
            stranger.join().unwrap();
        }
    }
}

/// Runs one until it is over, and starts it again as often as a fleet would.
fn stranger(script: &Path, how: &str, over: &AtomicBool) {
    let mut wait = Options::default().first_backoff;
    while !over.load(Ordering::Relaxed) {
        let mut command = Command::new("python3");
        command.arg(script).arg(how).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut said = child.stdout.take().unwrap();
        // What it says is read, as a fleet would.
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while matches!(said.read(&mut buffer), Ok(1..)) {}
        });
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "say", "arguments": {"text": "x"}}});
        // One that has ended by then hears nothing.
        let _ = writeln!(child.stdin.as_mut().unwrap(), "{call}");
        while !over.load(Ordering::Relaxed) && !has_ended(&mut child) {
            thread::sleep(PAUSE);
        }
        let _ = child.kill();
        child.wait().unwrap();
        reader.join().unwrap();
        let until = Instant::now() + wait;
        while !over.load(Ordering::Relaxed) && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        wait *= 2;
    }
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

/// The slowest hundredth of a round in which programs like the bad servers run beside, unmounted.
async fn round_alone(place: &Place) -> Duration {
    let strangers = Strangers::start(place);
    let took = round(place, &[], || strangers.end()).await;
    p99(took)
}

/// The slowest hundredth of a round among bad servers.
async fn round_among(place: &Place) -> Duration {
    p99(round(place, &BAD, || {}).await)
}

/// One round: three good servers, with these bad ones beside them. `measured_all` is called when
/// everything is measured.
async fn round(place: &Place, bad: &[&str], measured_all: impl FnOnce()) -> Vec<Duration> {
    let good: Vec<String> = (0..3).map(|n| format!("good{n}")).collect();
    let shared = shared();
    let name = |(n, how): (usize, &&str)| format!("{how}{n}");
    let bad_names: Vec<String> = bad.iter().enumerate().map(name).collect();
    let bad_ones = bad_names.iter().zip(bad);
    let bad_ones = bad_ones.map(|(server, how)| mount(place, server, how));
    let mounts = good.iter().map(|server| mount(place, server, "good"));
    let fleet = Fleet::start(
        bad_ones.chain(mounts).collect(),
        &shared,
        UnseenServer::Start,
    )
    .unwrap();
    let seem_good = |server: &&String| SEEM_GOOD.iter().any(|how| server.starts_with(how));
    let seem_good: Vec<String> = bad_names.iter().filter(seem_good).cloned().collect();
    let known: Vec<String> = good.iter().chain(&seem_good).cloned().collect();
    ready(&fleet, &shared, &known).await;
    // A list has those that said what they offer, and waits for nobody.
    assert_eq!(shared.registry.snapshot().len(), known.len());

    let cancel = CancellationToken::new();
    let in_vain = seem_good.iter().map(|server| {
        let server = fleet.server(&id(server)).unwrap();
        tokio::spawn(call_in_vain(server, cancel.clone()))
    });
    let in_vain: Vec<_> = in_vain.collect();
    let took = measured(&fleet, &good).await;
    measured_all();
    // One that dies with every call is well again between two of them.
    until_as_they_should_be(&fleet).await;
    cancel.cancel();
    for calls in in_vain {
        calls.await.unwrap();
    }
    fleet.stop().await;
    gone(place.folder.path()).await;
    took
}

/// Whether a server is as one of its kind is after a round, and what people are told of it.
fn is_as_it_should_be(one: &Status) -> bool {
    let name = one.server.to_string();
    let why = one.last_error.as_deref().unwrap_or_default();
    match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "good" => one.state == State::Ready,
        "exits" => why.contains("cannot find"),
        "dies" => why.contains("it was too much"),
        _ => true,
    }
}

/// Waits until every server is as it should be: on a busy machine one may only just be ending.
async fn until_as_they_should_be(fleet: &Fleet) {
    let began = Instant::now();
    loop {
        let mut status = fleet.status();
        status.retain(|one| !is_as_it_should_be(one));
        if status.is_empty() {
            return;
        }
        assert!(began.elapsed() < COMES_TO_BE, "{status:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The slowest hundredth.
fn p99(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Waits until nothing is left of the servers. One that was being started ends behind our back.
async fn gone(folder: &Path) {
    let script = folder.join("plain.py").display().to_string();
    let left = || {
        let all = std::fs::read_dir("/proc").unwrap();
        all.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
            .filter(|line| String::from_utf8_lossy(line).contains(&script))
            .count()
    };
    let began = Instant::now();
    while left() > 0 {
        assert!(began.elapsed() < COMES_TO_BE, "{} are left", left());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The other three answer as they do without the bad ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_16_bad_servers_do_not_slow_the_others_down() {
    let place = place();
    for attempt in 1..=ATTEMPTS {
        let (alone, among) = (round_alone(&place).await, round_among(&place).await);
        println!("attempt {attempt}: p99 alone {alone:?}, among bad ones {among:?}");
        if among <= alone * SLOWER {
            return;
        }
    }
    panic!("good servers are more than {SLOWER} times as slow among bad ones");
}
