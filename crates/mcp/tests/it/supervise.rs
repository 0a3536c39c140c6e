//! Supervised servers that are real processes: what the bad ones do does not reach the good ones.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{WorkPath, ops::Tier};
use haft_mcp::{
    client::Clients,
    mounts::CHANGES_KEPT,
    name::{Naming, ServerId},
    pin::{Digest, Filter, MemoryStore, vet},
    upstream::{
        Introduction,
        connection::{Era, Request},
        mounted::Maker,
        stdio::{ServerCommand, StdioConnector},
        supervise::{Fleet, Mount, Options, Shared, State, Unseen},
        tool::Mounting,
    },
};
use haft_runtime::{SystemClock, registry::Registry};
use serde_json::json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

const SERVER: &str = include_str!("../fixtures/plain.py");

/// How often every good server is called.
const CALLS: usize = 500;

/// Between two rounds, so that what is measured spans several failures of the bad ones.
const PAUSE: Duration = Duration::from_millis(5);

/// What the tail of a few hundred calls may grow by on a machine that runs other tests beside. A
/// server that waits for a hung one would wait for seconds.
const NOISE: Duration = Duration::from_millis(200);

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

fn origin() -> Digest {
    Digest::of_bytes(b"fixture")
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
    let introduction = Introduction {
        only: Some(Era::Legacy),
        ..Introduction::default()
    };
    let processes = place.backend.operations().processes;
    Mount {
        server: id(server),
        naming: Naming::Prefixed,
        filter: Filter::default(),
        origin: origin(),
        connect: Arc::new(StdioConnector::new(processes, command, introduction)),
        make: Arc::new(Maker(Mounting::new(Arc::<Clients>::default()))),
        options: Options {
            start_timeout: Duration::from_secs(30),
            ..Options::default()
        },
    }
}

fn shared() -> Shared {
    Shared {
        store: Arc::new(MemoryStore::default()),
        registry: Arc::new(Registry::new()),
        clock: Arc::new(SystemClock),
        changes: broadcast::channel(CHANGES_KEPT).0,
    }
}

async fn ready(fleet: &Fleet, shared: &Shared, servers: &[String]) {
    for server in servers {
        let server = id(server);
        fleet.reach(&server).await.unwrap();
        let seen = shared.store.seen(&server, origin()).unwrap().unwrap();
        let vetted = vet(
            &server,
            Naming::Prefixed,
            &Filter::default(),
            &seen.definitions,
        )
        .unwrap();
        let mut accept = |pins: &mut haft_mcp::pin::Pins| {
            pins.review(&vetted.items);
            for item in &vetted.items {
                pins.accept(item).unwrap();
            }
        };
        shared
            .store
            .change(&server, &vetted.items, &mut accept)
            .unwrap();
    }
    while fleet
        .status()
        .iter()
        .map(|one| one.counts.tools)
        .sum::<usize>()
        < servers.len()
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The slowest hundredth of the calls of good servers, one call at a time each.
async fn p99(fleet: &Fleet, servers: &[String]) -> Duration {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        for server in servers {
            let server = fleet.server(&id(server)).unwrap();
            let request = Request {
                method: "tools/call",
                parameters: json!({"name": "say", "arguments": {"text": "x"}}),
                deadline: Duration::from_secs(30),
                progress: None,
                client: None,
            };
            let began = Instant::now();
            server
                .request(request, &CancellationToken::new())
                .await
                .unwrap();
            took.push(began.elapsed());
        }
        tokio::time::sleep(PAUSE).await;
    }
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
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{} are left",
            left()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Of ten servers three hang, three exit and one speaks garbage: the other three answer as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_16_bad_servers_do_not_slow_the_others_down() {
    let place = place();
    let good: Vec<String> = (0..3).map(|n| format!("good{n}")).collect();
    let alone = shared();
    let mounts = good.iter().map(|server| mount(&place, server, "good"));
    let fleet = Fleet::start(mounts.collect(), &alone, Unseen::Start).unwrap();
    ready(&fleet, &alone, &good).await;
    let before = p99(&fleet, &good).await;
    fleet.stop().await;
    gone(place.folder.path()).await;

    let crowd = shared();
    let bad = [
        "hangs", "hangs", "hangs", "exits", "exits", "exits", "garbage",
    ];
    let bad = bad.iter().enumerate();
    let bad = bad.map(|(n, how)| mount(&place, &format!("bad{n}"), how));
    let mounts = good.iter().map(|server| mount(&place, server, "good"));
    let fleet = Fleet::start(bad.chain(mounts).collect(), &crowd, Unseen::Start).unwrap();
    ready(&fleet, &crowd, &good).await;
    let began = Instant::now();
    assert_eq!(crowd.registry.snapshot().len(), good.len());
    assert!(began.elapsed() < NOISE, "a list asks nobody");
    let among = p99(&fleet, &good).await;
    let servers = fleet.status();
    let states: Vec<State> = servers.iter().map(|one| one.state).collect();
    println!("p99 alone {before:?}, among bad ones {among:?}; {states:?}");
    assert!(among <= before * 2 + NOISE, "{before:?} {among:?}");
    let exits = servers.iter().find(|one| one.server == id("bad3")).unwrap();
    let why = exits.last_error.clone().unwrap_or_default();
    assert!(why.contains("cannot find"), "{why}");
    fleet.stop().await;
    gone(place.folder.path()).await;
}
