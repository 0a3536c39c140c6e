//! What a record costs as it grows: a call, the last calls of a session, a search, and bytes on the disk,
//! at every power of ten. In CI by counts that depend on no clock; in the soak in processor time, and
//! wall time side by side.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    AgentId, Principal, SessionId, Terminal, WorkspaceId,
    host::{CallOutcome, CallQuery, History as _, Ledger as _, StoredCall},
};
use haft_ledger::StoredLedger;
use serde_json::json;

use crate::{
    engine::EngineFixture,
    postgres::PostgresFixture,
    support::{Fixture, NOW, request, settled, tenant},
};

/// How many calls are on their way at once.
const AT_ONCE: u64 = 512;

/// How many sessions the calls are of.
const SESSIONS: u64 = 20;

/// Of how many calls the cost is taken: so many, or so many times what a short record has.
const SAMPLE: u64 = 20_000;
const SAMPLES_OF_SHORTEST: u64 = 5;

/// How often a list or a search is read; the median counts.
const READS: usize = 31;

/// One call in so many has the rare word.
const RARE: u64 = 100_000;

/// The largest record that is searched: what catching up costs does not depend on how much there was.
const LARGEST_SEARCHED: u64 = 1_000_000;

/// A record of this length is warm: growth from here on is told beside what is promised.
const WARM: u64 = 100_000;

/// What is promised, for the shortest record compared with the longest.
const MOST_A_CALL: f64 = 1.3;
const MOST_LAST_TWENTY: f64 = 6.0;
const MOST_SEARCH: Duration = Duration::from_secs(2);
const MOST_A_PAGE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: ten thousand calls"]
async fn a_longer_record_on_sqlite_is_read_with_as_few_bytes() {
    let fixture = Fixture::new();
    let mut read = Vec::new();
    let mut filled = 0;
    for calls in [1_000, 10_000] {
        let ledger = fixture.open().await;
        fill(&ledger, filled, calls).await;
        filled = calls;
        ledger.catch_up_with_everything().await;
        ledger.close().await.unwrap();
        // Nothing is in a cache of this process.
        let ledger = fixture.open().await;
        let before = bytes_read();
        assert_eq!(last_twenty(&ledger).await.len(), 20);
        let listed = bytes_read() - before;
        assert!(!search(&ledger, "rare").await.is_empty());
        let searched = bytes_read() - before - listed;
        println!("{calls} calls: {listed} bytes for the last 20, {searched} for a search");
        read.push((listed, searched));
        ledger.close().await.unwrap();
    }
    let [short, long] = read[..] else {
        panic!("{read:?}")
    };
    check_reads(short, long, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs PostgreSQL"]
async fn a_longer_record_on_postgresql_is_read_with_as_few_pages() {
    let fixture = PostgresFixture::new().await;
    let mut read = Vec::new();
    let mut filled = 0;
    for calls in [1_000, 10_000] {
        let ledger = fixture.open().await;
        fill(&ledger, filled, calls).await;
        filled = calls;
        ledger.catch_up_with_everything().await;
        ledger.close().await.unwrap();
        fixture.sql("VACUUM ANALYZE");
        let mut pages = [0; 3];
        // What opening alone reads, a list, and a search.
        for (what, pages) in pages.iter_mut().enumerate() {
            let before = fixture.pages_read().await;
            let ledger = fixture.open().await;
            for _ in 0..READS {
                match what {
                    0 => {}
                    1 => assert_eq!(last_twenty(&ledger).await.len(), 20),
                    _ => assert!(!search(&ledger, "rare").await.is_empty()),
                }
            }
            ledger.close().await.unwrap();
            *pages = fixture.pages_read().await - before;
        }
        let [opened, listed, searched] = pages;
        let each = |pages: u64| pages.saturating_sub(opened) / READS as u64;
        let (listed, searched) = (each(listed), each(searched));
        println!("{calls} calls: {listed} pages for the last 20, {searched} for a search");
        read.push((listed, searched));
    }
    let [short, long] = read[..] else {
        panic!("{read:?}")
    };
    check_reads(short, long, 2);
}

/// What a list and a search read in a short record and in one ten times as long. A list has an index of
/// its own. On SQLite a search also goes through where the tenant's calls are, which is compressed: more,
/// and far less than ten times as much.
fn check_reads(short: (u64, u64), long: (u64, u64), most_of_a_search: u64) {
    assert!(long.0 < 2 * short.0, "a list: {short:?} {long:?}");
    let searched = most_of_a_search * short.1;
    assert!(long.1 < searched, "a search: {short:?} {long:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million calls"]
async fn soak_growth_on_sqlite() {
    grow(&Fixture::new(), largest()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million calls on PostgreSQL"]
async fn soak_growth_on_postgresql() {
    grow(&PostgresFixture::new().await, largest()).await;
}

/// A page of fifty calls, at the newest end and in the middle, for each filter alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "soak: a million calls, listed by pages"]
async fn soak_pages_on_sqlite() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    fill(&ledger, 0, largest()).await;
    // One in so many of all there are, spread over them by what follows the last.
    for number in 0..SESSIONS {
        let mut asked = request("rare", "rare", json!({ "number": number }));
        let mut who = Principal::clone(&asked.principal);
        who.agent = AgentId::parse("rare").unwrap();
        asked.principal = Arc::new(who);
        let record = ledger.open(&asked, NOW).await.unwrap();
        record.settle(vec![settled(asked.id, Terminal::Denied, "no")]);
        record.settled().await.unwrap();
    }
    fill(&ledger, 0, largest() / 10).await;
    ledger.catch_up_with_everything().await;
    let all = CallQuery {
        limit: 50,
        ..CallQuery::default()
    };
    let middle = ledger.calls(&tenant(), &all).await.unwrap()[0].position / 2;
    let mut slowest = Duration::ZERO;
    let by = |change: &dyn Fn(&mut CallQuery)| {
        let mut query = all.clone();
        change(&mut query);
        query
    };
    let session = |name: &str| SessionId::parse(name).ok();
    let queries = [
        ("all", all.clone()),
        ("session", by(&|query| query.session = session("s7"))),
        (
            "a rare session",
            by(&|query| query.session = session("rare")),
        ),
        (
            "agent",
            by(&|query| query.filter.agent = Some("agent".to_owned())),
        ),
        (
            "a rare agent",
            by(&|query| query.filter.agent = Some("rare".to_owned())),
        ),
        (
            "tool",
            by(&|query| query.filter.tool = Some("sample".to_owned())),
        ),
        (
            "a rare tool",
            by(&|query| query.filter.tool = Some("rare".to_owned())),
        ),
        (
            "succeeded",
            by(&|query| query.outcome = Some(CallOutcome::Ended(Terminal::Succeeded))),
        ),
        (
            "denied",
            by(&|query| query.outcome = Some(CallOutcome::Ended(Terminal::Denied))),
        ),
        ("open", by(&|query| query.outcome = Some(CallOutcome::Open))),
        (
            "workspace",
            by(&|query| query.filter.workspaces = vec![WorkspaceId::local()]),
        ),
        (
            "denied of a session",
            by(&|query| {
                query.session = session("s7");
                query.outcome = Some(CallOutcome::Ended(Terminal::Denied));
            }),
        ),
    ];
    for (name, query) in queries {
        for before in [None, Some(middle)] {
            let query = CallQuery {
                before,
                ..query.clone()
            };
            let found = ledger.calls(&tenant(), &query).await.unwrap().len();
            let page = median(async || drop(ledger.calls(&tenant(), &query).await)).await;
            let from = if before.is_some() {
                "the middle"
            } else {
                "the end"
            };
            println!(
                "{name}, from {from}: {found} calls in {:.2} ms",
                page.as_secs_f64() * 1e3
            );
            slowest = slowest.max(page);
        }
    }
    ledger.close().await.unwrap();
    assert!(slowest <= MOST_A_PAGE, "{slowest:?}");
}

/// A million, or as many as the environment says.
fn largest() -> u64 {
    let said = std::env::var("HAFT_GROWTH_CALLS").ok();
    said.map_or(1_000_000, |calls| calls.parse().unwrap())
}

/// What a record of some length costs.
struct Cost {
    calls: u64,
    /// Processor time of this process and of the server, for one more call.
    a_call: Duration,
    last_twenty: Duration,
    /// None where the record is too long to catch up with it here.
    search: Option<Duration>,
    bytes_a_call: u64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls: {:.1} µs of processor time a call, {:.2} ms for the last 20 of a session, \
             {} bytes a call",
            self.calls,
            self.a_call.as_secs_f64() * 1e6,
            self.last_twenty.as_secs_f64() * 1e3,
            self.bytes_a_call,
        )?;
        match self.search {
            Some(search) => write!(
                f,
                ", {:.2} ms for a search, caught up",
                search.as_secs_f64() * 1e3
            ),
            None => Ok(()),
        }
    }
}

async fn grow(fixture: &impl EngineFixture, largest: u64) {
    let ledger = fixture.open().await;
    let (mut filled, mut calls) = (0, 1_000);
    let mut costs: Vec<Cost> = Vec::new();
    while calls <= largest {
        let began = Instant::now();
        fill(&ledger, filled, calls).await;
        let rate = a_second(calls - filled, began.elapsed());
        println!("{} more calls, {rate:.0} a second", calls - filled);
        // Nobody searches here, so a call costs what it costs without an index.
        let sample = SAMPLE.min(SAMPLES_OF_SHORTEST * calls);
        let used = fixture.processor_time();
        fill(&ledger, calls, calls + sample).await;
        let used = fixture.processor_time().saturating_sub(used);
        filled = calls + sample;
        let search = if calls <= LARGEST_SEARCHED {
            let began = Instant::now();
            ledger.catch_up_with_everything().await;
            let caught_up = began.elapsed().as_secs_f64();
            println!("caught up in {caught_up:.1} s");
            let expected = usize::try_from(filled.div_ceil(RARE)).unwrap();
            assert_eq!(search(&ledger, "rare").await.len(), expected);
            Some(median(async || drop(search(&ledger, "rare").await)).await)
        } else {
            None
        };
        assert_eq!(last_twenty(&ledger).await.len(), 20);
        let cost = Cost {
            calls,
            a_call: used / u32::try_from(sample).unwrap(),
            last_twenty: median(async || drop(last_twenty(&ledger).await)).await,
            search,
            bytes_a_call: fixture.bytes() / filled,
        };
        println!("{cost}");
        costs.push(cost);
        calls *= 10;
    }
    let (short, long) = (&costs[0], &costs[costs.len() - 1]);
    let ratio = |one: Duration, other: Duration| other.as_secs_f64() / one.as_secs_f64();
    let a_call = ratio(short.a_call, long.a_call);
    let listed = ratio(short.last_twenty, long.last_twenty);
    println!("a call {a_call:.2} ×, the last 20 of a session {listed:.2} ×");
    // The shortest record also pays for what is done first, which hides growth.
    if let Some(warm) = costs.iter().find(|cost| cost.calls == WARM) {
        let warm = ratio(warm.a_call, long.a_call);
        println!("a call {warm:.2} × from {WARM} calls on");
    }
    let searched = costs.iter().filter_map(|cost| cost.search).max().unwrap();
    ledger.close().await.unwrap();
    assert!(a_call <= MOST_A_CALL, "{a_call:.2}");
    assert!(listed <= MOST_LAST_TWENTY, "{listed:.2}");
    assert!(searched <= MOST_SEARCH, "{searched:?}");
}

/// How many there were in a second.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of far fewer than a thousand million million"
)]
pub(crate) fn a_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Makes the calls of these numbers, each one row, many at once.
pub(crate) async fn fill(ledger: &StoredLedger, from: u64, to: u64) {
    let mut callers = tokio::task::JoinSet::new();
    for first in from..(from + AT_ONCE).min(to) {
        let ledger = ledger.clone();
        callers.spawn(async move {
            let mut number = first;
            while number < to {
                one_call(&ledger, number).await;
                number += AT_ONCE;
            }
        });
    }
    callers.join_all().await;
}

/// A call of one row, waited for until it is durable.
pub(crate) async fn one_call(ledger: &StoredLedger, number: u64) {
    call_of(ledger, number % SESSIONS, number).await;
}

/// The same, in a session of its own.
pub(crate) async fn one_call_of(ledger: &StoredLedger, session: u64) {
    call_of(ledger, session, session).await;
}

async fn call_of(ledger: &StoredLedger, session: u64, number: u64) {
    let session = format!("s{session}");
    let asked = request(&session, "sample", json!({ "number": number }));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let text = match number % RARE {
        0 => "an ordinary text with a rare word",
        _ => "an ordinary text of no more than a line",
    };
    record.settle(vec![settled(asked.id, Terminal::Succeeded, text)]);
    record.settled().await.unwrap();
}

async fn last_twenty(ledger: &StoredLedger) -> Vec<StoredCall> {
    let query = CallQuery {
        session: Some(SessionId::parse("s7").unwrap()),
        limit: 20,
        ..CallQuery::default()
    };
    let calls = ledger.calls(&tenant(), &query).await.unwrap();
    assert!(calls.iter().all(|call| call.session.as_str() == "s7"));
    calls
}

async fn search(ledger: &StoredLedger, word: &str) -> Vec<StoredCall> {
    let query = CallQuery {
        search: Some(word.to_owned()),
        limit: 100,
        ..CallQuery::default()
    };
    ledger.calls(&tenant(), &query).await.unwrap()
}

async fn median(mut read: impl AsyncFnMut()) -> Duration {
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        read().await;
        times.push(began.elapsed());
    }
    times.sort();
    times[READS / 2]
}

trait CatchUp {
    async fn catch_up_with_everything(&self);
}

impl CatchUp for StoredLedger {
    async fn catch_up_with_everything(&self) {
        self.flush().await.unwrap();
        while self.catch_up().await.unwrap() > 0 {}
    }
}

/// Bytes this process has read from files, cached by the kernel or not.
fn bytes_read() -> u64 {
    let counted = std::fs::read_to_string("/proc/self/io").unwrap();
    let read = counted
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}
