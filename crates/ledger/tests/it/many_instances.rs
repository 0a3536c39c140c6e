//! Many processes on one record, killed at random: a claim is exclusive, nothing starts twice, whoever
//! follows misses nothing, and every chain is whole. On SQLite in one directory, and on PostgreSQL, where
//! every process has a machine of its own.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_contract::{
    CallId, Terminal,
    host::{
        Acceptance, CallQuery, Durability, Epoch, History as _, Ledger as _, LedgerErrorKind,
        StoredCall, Verification,
    },
};
use haft_ledger::StoredLedger;
use serde_json::json;

use crate::{
    child::{self, Player},
    postgres::PostgresFixture,
    support::{Fixture, NOW, request, settled, started, tenant, whole_call, writes},
};

/// How many processes work at once.
const PROCESSES: usize = 8;

/// How many calls they claim from each other.
const ACCEPTED: usize = 120;

/// How long between two kills.
const PAUSE: Duration = Duration::from_millis(150);

/// A file in which one line is an accepted call; beside it, a file for each that was started.
const LIST: &str = "accepted";

/// Where processes are started, and on which database.
trait Machines {
    fn start(&self, number: usize, part: &str) -> Player;
    async fn open(&self) -> StoredLedger;
}

struct OneDirectory(Fixture);

impl Machines for OneDirectory {
    fn start(&self, _: usize, part: &str) -> Player {
        child::start(part, &self.0.directory(), None)
    }

    async fn open(&self) -> StoredLedger {
        self.0.open().await
    }
}

impl Machines for PostgresFixture {
    fn start(&self, number: usize, part: &str) -> Player {
        let directory = self.other_machine(&format!("machine{number}"));
        child::start_on(part, &directory, &self.server.url("app"))
    }

    async fn open(&self) -> StoredLedger {
        self.open_at(&self.directory()).await.0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: kills processes for seconds"]
async fn killed_processes_in_one_directory_lose_and_double_nothing() {
    run(OneDirectory(Fixture::new()), Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs PostgreSQL"]
async fn killed_machines_on_one_database_lose_and_double_nothing() {
    run(PostgresFixture::new().await, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a minute of kills in one directory"]
async fn a_minute_of_kills_in_one_directory() {
    run(OneDirectory(Fixture::new()), Duration::from_mins(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a minute of kills on PostgreSQL"]
async fn a_minute_of_kills_on_one_database() {
    run(PostgresFixture::new().await, Duration::from_mins(1)).await;
}

async fn run(machines: impl Machines, time: Duration) {
    let effects = tempfile::tempdir().unwrap();
    let ledger = machines.open().await;
    let accepted = accept(&ledger, effects.path()).await;
    let part = format!("flood {}", effects.path().display());
    let mut players: Vec<Player> = (0..PROCESSES)
        .map(|number| machines.start(number, &part))
        .collect();
    let mut follower = Follower::default();
    let began = Instant::now();
    let mut kills = 0;
    while began.elapsed() < time {
        tokio::time::sleep(PAUSE).await;
        follower.look(&ledger).await;
        // In turn, and so at whatever each of them was doing.
        let number = kills % PROCESSES;
        let next = machines.start(number, &part);
        std::mem::replace(&mut players[number], next).kill();
        kills += 1;
    }
    players.into_iter().for_each(Player::kill);
    ledger.close().await.unwrap();
    let ledger = settle_all(&machines, &accepted).await;
    finish_accepted(&ledger, &accepted).await;
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
    assert!(
        !effects.path().join("doubled").exists(),
        "a call was started twice"
    );
    let all = calls(&ledger).await;
    assert!(all.iter().all(|(_, terminal)| terminal.is_some()));
    follower.look(&ledger).await;
    let all: BTreeSet<CallId> = all.into_iter().map(|(id, _)| id).collect();
    assert_eq!(follower.seen.len(), all.len());
    assert_eq!(follower.seen, all);
    assert!(all.len() > ACCEPTED, "they did something of their own too");
    println!("{} calls, {kills} kills", all.len());
    ledger.close().await.unwrap();
}

async fn accept(ledger: &StoredLedger, effects: &Path) -> Vec<CallId> {
    let mut list = String::new();
    let mut accepted = Vec::new();
    for _ in 0..ACCEPTED {
        let asked = request("accepted", "sample", json!({}));
        let answer = ledger.accept(&asked, NOW).await.unwrap();
        assert_eq!(answer, Acceptance::Accepted);
        accepted.push(asked.id);
        list.push_str(&asked.id.to_string());
        list.push('\n');
    }
    fs::write(effects.join(LIST), list).unwrap();
    accepted
}

/// Opens until the calls of every killed process are settled: a server notices a little later.
async fn settle_all(machines: &impl Machines, accepted: &[CallId]) -> StoredLedger {
    let began = Instant::now();
    loop {
        let ledger = machines.open().await;
        // Those that were accepted wait for the next claim.
        let is_settled = |(id, terminal): &(CallId, Option<Terminal>)| {
            terminal.is_some() || accepted.contains(id)
        };
        if calls(&ledger).await.iter().all(is_settled) {
            return ledger;
        }
        ledger.close().await.unwrap();
        assert!(began.elapsed() < haft_testkit::PATIENCE);
    }
}

/// Claims what is left in a later epoch than any process did.
async fn finish_accepted(ledger: &StoredLedger, accepted: &[CallId]) {
    let epoch = Epoch::new(1_000_000).unwrap();
    for id in accepted {
        match ledger.claim(&tenant(), *id, epoch, NOW).await {
            Ok(claimed) => {
                let done = settled(*id, Terminal::Succeeded, "at last");
                claimed.record.settle(vec![done]);
                claimed.record.settled().await.unwrap();
            }
            Err(error) => assert_eq!(error.kind(), LedgerErrorKind::Over, "{error}"),
        }
    }
}

/// Every call of a record in which nobody writes any more.
async fn calls(ledger: &StoredLedger) -> Vec<(CallId, Option<Terminal>)> {
    let calls = calls_after(ledger, 0).await;
    calls.iter().map(|call| (call.id, call.terminal)).collect()
}

/// Every call after a position, page by page: a query returns no more than its cap.
async fn calls_after(ledger: &StoredLedger, mut after: u64) -> Vec<StoredCall> {
    let mut all = Vec::new();
    loop {
        let query = CallQuery {
            after: Some(after),
            limit: 10_000,
            ..CallQuery::default()
        };
        let page = ledger.calls(&tenant(), &query).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        after = last.position;
        all.extend(page);
    }
}

/// Follows the record from its beginning.
#[derive(Default)]
struct Follower {
    after: u64,
    seen: BTreeSet<CallId>,
}

impl Follower {
    async fn look(&mut self, ledger: &StoredLedger) {
        for call in calls_after(ledger, self.after).await {
            self.after = self.after.max(call.position);
            assert!(self.seen.insert(call.id), "a call was shown twice");
        }
    }
}

/// The part of each process: makes calls of its own and claims what was accepted, until it is killed.
pub(crate) async fn flood(ledger: &StoredLedger, effects: &str) {
    let effects = PathBuf::from(effects);
    let accepted = fs::read_to_string(effects.join(LIST)).unwrap();
    let accepted: Vec<CallId> = accepted
        .lines()
        .map(|id| uuid::Uuid::parse_str(id).unwrap().into())
        .collect();
    let mut random = u64::from(std::process::id());
    loop {
        let (_, record) = whole_call(ledger, "own", "of its own").await;
        record.settled().await.unwrap();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = usize::try_from(random >> 33).unwrap();
        let id = accepted[number % accepted.len()];
        let epoch = Epoch::new(u32::try_from(number % 5 + 1).unwrap()).unwrap();
        work_on(ledger, id, epoch, &effects).await;
    }
}

async fn work_on(ledger: &StoredLedger, id: CallId, epoch: Epoch, effects: &Path) {
    let claimed = match ledger.claim(&tenant(), id, epoch, NOW).await {
        Ok(claimed) => claimed,
        Err(error) => {
            let kinds = [LedgerErrorKind::Over, LedgerErrorKind::Superseded];
            assert!(kinds.contains(&error.kind()), "{error}");
            return;
        }
    };
    let start = vec![writes(id), started(id)];
    if claimed
        .record
        .append(start, Durability::Durable)
        .await
        .is_err()
    {
        // A newer claim has it.
        return;
    }
    let effect = fs::File::create_new(effects.join(id.to_string()));
    if effect.is_err() {
        fs::write(effects.join("doubled"), id.to_string()).unwrap();
    }
    claimed
        .record
        .settle(vec![settled(id, Terminal::Succeeded, "claimed")]);
    // Whether a newer claim has it meanwhile, the record says.
    let _ = claimed.record.settled().await;
}
