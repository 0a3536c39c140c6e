//! Measures the two figures the ledger is held to, side by side with what they are compared to:
//! records a second under load against one durable row a transaction, and reading the last twenty
//! calls of a session in a short and in a long record.
//!
//! `cargo run --profile bench -p haft-ledger --example measure -- [most rows, default 1000000]`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a program for a person at a terminal"
)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    AgentId, CallEvent, CallRequest, Content, Facts, Outcome, Principal, SessionId, TenantId,
    Terminal, UserId,
    event::Happened,
    host::{CallQuery, Clock, Durability, History as _, Ledger as _, Timestamp},
    ops::Tier,
};
use haft_ledger::{LedgerOptions, SqliteLedger};
use serde_json::json;
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

/// How long each rate is measured.
const RUN: Duration = Duration::from_secs(5);

/// Calls that wait for the disk at the same time.
const CALLERS: usize = 256;

/// Reads of which the median is taken.
const READS: usize = 501;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let most: u64 = std::env::args()
        .nth(1)
        .map_or(1_000_000, |rows| rows.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let single = one_row_a_transaction(folder.path()).await;
    let (records, calls) = under_load(&folder.path().join("load")).await;
    println!("one durable row a transaction: {single:>9.0} rows/s");
    println!("ledger, {CALLERS} callers at once:   {records:>9.0} records/s ({calls:.0} calls/s)");
    println!("ratio: {:.1} x\n", records / single);
    let directory = folder.path().join("long");
    let mut first = None;
    let mut rows = 1_000;
    while rows <= most {
        let median = last_twenty(&directory, rows).await;
        let ratio = median.as_secs_f64() / first.get_or_insert(median).as_secs_f64();
        println!("last 20 of a session, {rows:>9} calls: {median:>9.1?}  {ratio:.2} x");
        rows *= 10;
    }
}

async fn one_row_a_transaction(directory: &Path) -> f64 {
    let mut connection = SqliteConnectOptions::new()
        .filename(directory.join("single.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE row (number INTEGER PRIMARY KEY, body TEXT)")
        .execute(&mut connection)
        .await
        .unwrap();
    let begun = Instant::now();
    let mut rows = 0;
    while begun.elapsed() < RUN {
        sqlx::query("INSERT INTO row (body) VALUES (?1)")
            .bind("{\"v\":1,\"tier\":\"in_process\"}")
            .execute(&mut connection)
            .await
            .unwrap();
        rows += 1;
    }
    f64::from(rows) / begun.elapsed().as_secs_f64()
}

async fn under_load(directory: &Path) -> (f64, f64) {
    let options = LedgerOptions::new(directory, Arc::new(Fixed));
    let (ledger, _) = SqliteLedger::open(options).await.unwrap();
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|index| {
            let ledger = ledger.clone();
            let principal = principal(&format!("s{}", index % 16));
            tokio::spawn(async move {
                let mut calls = 0_u32;
                while begun.elapsed() < RUN {
                    one_call(&ledger, &principal).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0.0;
    for caller in callers {
        calls += f64::from(caller.await.unwrap());
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let records = ledger.counters().records as f64;
    ledger.close().await.unwrap();
    (records / elapsed, calls / elapsed)
}

/// A call that changes something: its start is durable before it goes on, and so is its end.
async fn one_call(ledger: &SqliteLedger, principal: &Arc<Principal>) {
    let request = CallRequest::new("write", json!({"path": "a.txt"}), Arc::clone(principal));
    let id = request.id;
    let happened = |event| Happened {
        call: id,
        at: Timestamp(0),
        event,
    };
    let record = ledger.open(&request, Timestamp(0)).await.unwrap();
    let tier = Tier::InProcess;
    let begun = vec![
        happened(CallEvent::Validated {
            coercions: Vec::new(),
        }),
        happened(CallEvent::Admitted {
            waited: Duration::ZERO,
        }),
        happened(CallEvent::Started { tier }),
    ];
    record.append(begun, Durability::Durable).await.unwrap();
    let outcome = Arc::new(Outcome {
        call: id,
        tool: None,
        terminal: Terminal::Succeeded,
        content: vec![Content::text("wrote a.txt")],
        structured: None,
        error: None,
        facts: Facts::default(),
    });
    record.settle(vec![happened(CallEvent::Settled { outcome })]);
    record.settled().await.unwrap();
}

/// Fills the list of calls up to a number of rows, then reads through the ledger.
async fn last_twenty(directory: &Path, rows: u64) -> Duration {
    let open = || SqliteLedger::open(LedgerOptions::new(directory, Arc::new(Fixed)));
    open().await.unwrap().0.close().await.unwrap();
    let path = directory.join("ledger.db");
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display()))
        .await
        .unwrap();
    sqlx::query(
        "WITH RECURSIVE n (i) AS (
             SELECT (SELECT count(*) FROM call) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
         INSERT INTO call (tenant, id, session, session_kind, user, agent, asked_tool, tool,
             opened_at, read_only, redacted, terminal, settled_at, summary, owner)
         SELECT 'local', randomblob(16), 's' || (i % 50), 'main', 'ada', 'agent', 'bash',
             'builtin/bash', i, 0, 0, 'succeeded', i, 'cargo test number ' || i, 'gone' FROM n",
    )
    .bind(i64::try_from(rows).unwrap())
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let (ledger, _) = open().await.unwrap();
    let tenant = TenantId::parse("local").unwrap();
    let mut times = Vec::with_capacity(READS);
    for index in 0..READS {
        let query = CallQuery {
            session: Some(SessionId::parse(&format!("s{}", index % 50)).unwrap()),
            limit: 20,
            ..CallQuery::default()
        };
        let begun = Instant::now();
        let calls = ledger.calls(&tenant, &query).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(calls.len(), 20);
    }
    ledger.close().await.unwrap();
    times.sort();
    times[READS / 2]
}

fn principal(session: &str) -> Arc<Principal> {
    Arc::new(Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse(session).unwrap(),
    ))
}
