//! Many calls of a mounted server, one in twenty given up by its client in some way, in both eras,
//! over pipes and HTTP on both sides. Afterwards nothing is left of them: no request in any table, no
//! process, no descriptor, and in the soak of ten thousand calls no memory to speak of.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use haft_mcp::upstream::{connection, supervise::Options};
use serde_json::{Value, json};

use crate::{
    caller::Over,
    house::{House, named},
    server::wire::{Era, PATIENCE},
    upstream::peers::Peer,
};

/// Calls of every client before anything is measured: what is made once and kept is there then.
const FIRST: usize = 20;

/// Calls of every client between two looks at how large the process is. It gives up five of them, the
/// last by going away.
const PART: usize = 100;

/// Such parts of the soak. It has two tests of 16 clients each, so 10,240 calls in all.
const PARTS: usize = 3;

/// Every so manieth call is given up.
const ABORT_EVERY: usize = 20;

/// Of those that are given up, every so manieth by a client that goes away altogether.
const LEAVE_EVERY: usize = 5;

/// The least time between the beginning of a call and its end, where it is not given up at once.
const MOMENT: Duration = Duration::from_millis(10);

/// Clients of each kind, at the same time.
const CLIENTS: usize = 4;

/// The requests the server is given at a time, which is also how many connections to it may be kept.
const AT_A_TIME: usize = 8;

/// What the process may grow by after the first part. A kilobyte kept for each call is more.
const GROWTH_BYTES: u64 = 5 * 512 * 1024;

/// What became of the calls of one client, or of all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    answered: usize,
    given_up: usize,
}

/// What the process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    processes: usize,
    bytes: u64,
}

impl Held {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = resident.and_then(|line| line.split_whitespace().nth(1));
        Self {
            descriptors: descriptors(),
            processes: descendants(),
            bytes: kilobytes.unwrap().parse::<u64>().unwrap() * 1024,
        }
    }
}

/// How many descriptors are open, without those of the record: it keeps up to four connections for
/// reading, which are opened when several calls read at once, whenever that first happens.
fn descriptors() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let leads_to = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let others = leads_to.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.starts_with("ledger.db")
    });
    others.count()
}

/// How many processes descend from this one.
fn descendants() -> usize {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Ok(pid) = name.to_string_lossy().parse::<u32>() else {
            continue;
        };
        // A process may end while it is looked at.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let mut fields = after_name.split(' ');
        let (state, parent) = (fields.next(), fields.next());
        if let Some(parent) = parent.and_then(|parent| parent.parse::<u32>().ok())
            && state != Some("Z")
            && !is_warden(pid)
        {
            parents.insert(pid, parent);
        }
    }
    let us = std::process::id();
    let descends = |pid: &u32| {
        let mut at = *pid;
        while let Some(parent) = parents.get(&at).filter(|parent| **parent != at) {
            if *parent == us {
                return true;
            }
            at = *parent;
        }
        false
    };
    parents.keys().filter(|pid| descends(pid)).count()
}

/// Makes calls one after the other, and gives some up.
async fn client(house: &House, over: Over, era: Era, calls: usize) -> Tally {
    let (say, wait) = (named("say"), named("wait"));
    let mut tally = Tally::default();
    let mut client = house.client(over, era).await;
    for n in 1..=calls {
        if n % ABORT_EVERY != 0 {
            let said = client.said(&say, json!({"text": n})).await;
            assert_eq!(said, format!("said {n}"));
            tally.answered += 1;
            continue;
        }
        tally.given_up += 1;
        let abort = tally.given_up;
        // One that would be answered, or one that never would be; at once, or a moment later, so that
        // every stage of a call is met.
        let tool = if abort.is_multiple_of(2) { &say } else { &wait };
        let id = client.start(tool, json!({"text": n}), None).await;
        tokio::time::sleep(MOMENT * u32::try_from(abort % 4).unwrap()).await;
        if abort.is_multiple_of(LEAVE_EVERY) {
            client.leave().await;
            client = house.client(over, era).await;
        } else {
            client.cancel(id).await;
        }
    }
    client.leave().await;
    tally
}

/// Clients of every kind at the same time, with so many calls each.
async fn load(house: &House, each: usize) -> Tally {
    let mut kinds = Vec::new();
    for over in Over::BOTH {
        for era in Era::BOTH {
            kinds.extend([(over, era); CLIENTS]);
        }
    }
    let clients = kinds
        .into_iter()
        .map(|(over, era)| client(house, over, era, each));
    let tallies = futures_util::future::join_all(clients).await;
    tallies
        .into_iter()
        .fold(Tally::default(), |all, one| Tally {
            answered: all.answered + one.answered,
            given_up: all.given_up + one.given_up,
        })
}

/// What the server itself counts.
async fn counts(house: &House) -> Value {
    let mut client = house.client(Over::Pipes, Era::Modern).await;
    let counts = client.said(&named("counts"), json!({})).await;
    client.leave().await;
    serde_json::from_str(&counts).unwrap()
}

/// Whether it is the one process that removes what this one leaves behind: it ends with this one.
fn is_warden(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"warden")
}

/// Waits until something is as it should be, or says how it is.
async fn until<T: std::fmt::Debug>(what: &str, mut look: impl FnMut() -> Result<(), T>) {
    let began = Instant::now();
    while let Err(is) = look() {
        assert!(began.elapsed() < PATIENCE, "{what}: {is:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until nothing is left of any call.
async fn until_nothing_is_under_way(house: &House) {
    until("tables", || {
        let under_way = house.fleet.status()[0].under_way;
        let left = [
            house.runtime.in_flight(),
            house.calls.len(),
            house.clients.len(),
            house.endpoint.parked(),
            under_way,
        ];
        if left == [0; 5] { Ok(()) } else { Err(left) }
    })
    .await;
    let began = Instant::now();
    loop {
        let counts = counts(house).await;
        if counts["waiting"] == 0 {
            break;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "the server still works: {counts}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn check(over: Over, era: connection::ProtocolEra, parts: usize) {
    let reachable = Peer::Steady.reachable(over, era).await;
    let options = Options {
        start_timeout: PATIENCE,
        concurrency: AT_A_TIME,
        idle: None,
        ..Options::default()
    };
    let house = House::of(reachable.connector(), options).await;
    load(&house, FIRST).await;
    until_nothing_is_under_way(&house).await;
    let before = Held::now();
    let began = Instant::now();
    let mut all = Tally::default();
    let mut sizes = Vec::new();
    for _ in 0..parts {
        let part = load(&house, PART).await;
        all.answered += part.answered;
        all.given_up += part.given_up;
        until_nothing_is_under_way(&house).await;
        sizes.push(Held::now().bytes);
    }
    let took = began.elapsed();
    let told = counts(&house).await;
    println!("{over:?} {era:?}: {all:?} in {took:?}, {sizes:?} bytes; the server counts {told}");
    assert_eq!(all.answered, all.given_up * (ABORT_EVERY - 1));

    until("descriptors and processes", || {
        let now = Held::now();
        // Connections to the server are kept, at most as many as it is given requests at a time.
        let kept = if over == Over::Http { AT_A_TIME } else { 0 };
        let few = now.descriptors <= before.descriptors + kept;
        if few && now.processes == before.processes {
            Ok(())
        } else {
            Err((before, now))
        }
    })
    .await;
    println!("{before:?} {:?}", Held::now());
    // Of one part alone nothing can be said; the soak has several.
    assert!(
        sizes[sizes.len() - 1] <= sizes[0] + GROWTH_BYTES,
        "{sizes:?}"
    );
    // Every wait that reached the server has ended there too.
    assert!(told["cancelled"].as_u64().unwrap() > 0, "{told}");
    house.end().await;
    drop((house, reachable));
    until("processes", || match descendants() {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs Node; 1,600 calls"]
async fn calls_that_are_given_up_leave_nothing_behind_over_pipes_to_the_server() {
    check(Over::Pipes, connection::ProtocolEra::Legacy, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs Node; 1,600 calls"]
async fn calls_that_are_given_up_leave_nothing_behind_over_http_to_the_server() {
    check(Over::Http, connection::ProtocolEra::Modern, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 4,800 calls, and what the process grows by"]
async fn soak_calls_that_are_given_up_over_pipes() {
    check(Over::Pipes, connection::ProtocolEra::Legacy, PARTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: 4,800 calls, and what the process grows by"]
async fn soak_calls_that_are_given_up_over_http() {
    check(Over::Http, connection::ProtocolEra::Modern, PARTS).await;
}
