//! Row 15: what the ledger writes under load beside one durable row a transaction, and how long
//! the last twenty calls of a session take to read as the record grows.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    AgentId, CallEvent, CallRequest, Content, Facts, Outcome, Principal, SessionId, TenantId,
    Terminal, UserId,
    event::RecordedEvent,
    host::{CallQuery, Durability, History as _, Ledger as _, Timestamp},
    ops::Tier,
};
use haft_ledger::{LedgerOptions, SqliteLedger};
use haft_runtime::SystemClock;
use serde_json::json;
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    Scale,
    measure::median,
    report::{Goal, Row, time},
    setting,
};

/// Calls that wait for the disk at the same time.
const CALLERS: usize = 256;

/// Rounds of the rates, which take seconds each.
const ROUNDS: usize = 3;

/// Reads of which the median is taken.
const READS: usize = 301;

/// Calls of the short record.
const SHORT: u64 = 1_000;

/// Sessions of a record.
const SESSIONS: usize = 50;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    setting::many_threads().block_on(async {
        vec![
            rates(scale, folder.path()).await,
            reads(scale, folder.path()).await,
        ]
    })
}

async fn rates(scale: Scale, folder: &Path) -> Row {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let directory = folder.join(format!("load{round}"));
        ours.push(under_load(&directory, scale.ledger_run).await);
        let file = folder.join(format!("single{round}.db"));
        bare.push(one_row_a_transaction(&file, scale.ledger_run).await);
    }
    let ratios = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare);
    Row {
        number: 15,
        metric: format!("records a second, {CALLERS} callers ÷ one durable row a transaction"),
        ours: format!("{:.0}/s", median(ours.iter().copied())),
        bare: format!("{:.0}/s", median(bare.iter().copied())),
        figure: median(ratios),
        goal: Goal::RatioFrom(40.0),
        beside: "wall; every call waits until its start and its end are durable".to_owned(),
        limits: "CPU: encoding, hashing and inserting records, on cores shared with the callers; \
                 and the ratio is a disk's: where a commit takes 4 ms grouping saves much, where it \
                 takes 0.1 ms there is little to save",
    }
}

async fn reads(scale: Scale, folder: &Path) -> Row {
    let (short, long) = (folder.join("short"), folder.join("long"));
    fill(&short, SHORT).await;
    fill(&long, scale.ledger_rows).await;
    let (short, long) = (open(&short).await, open(&long).await);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for read in 0..READS {
        few.push(last_twenty(&short, read).await);
        many.push(last_twenty(&long, read).await);
    }
    short.close().await.unwrap();
    long.close().await.unwrap();
    let (few, many) = (median(few.into_iter()), median(many.into_iter()));
    Row {
        number: 15,
        metric: format!(
            "last 20 of a session, {SHORT} → {} calls",
            scale.ledger_rows
        ),
        ours: time(many),
        bare: format!("{} with {SHORT}", time(few)),
        figure: many / few,
        goal: Goal::RatioUpTo(6.0),
        beside: "wall, both records warm".to_owned(),
        limits: "the depth of the index",
    }
}

async fn one_row_a_transaction(file: &Path, run: Duration) -> f64 {
    let mut connection = SqliteConnectOptions::new()
        .filename(file)
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
    while begun.elapsed() < run {
        sqlx::query("INSERT INTO row (body) VALUES (?1)")
            .bind("{\"v\":1,\"tier\":\"in_process\"}")
            .execute(&mut connection)
            .await
            .unwrap();
        rows += 1;
    }
    let rate = f64::from(rows) / begun.elapsed().as_secs_f64();
    connection.close().await.unwrap();
    rate
}

/// Records a second that are durable before their callers go on.
async fn under_load(directory: &Path, run: Duration) -> f64 {
    let ledger = open(directory).await;
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|index| {
            let (ledger, principal) = (ledger.clone(), principal(&format!("s{}", index % 16)));
            tokio::spawn(async move {
                while begun.elapsed() < run {
                    one_call(&ledger, &principal).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    let rate = ledger.counters().records as f64 / begun.elapsed().as_secs_f64();
    ledger.close().await.unwrap();
    rate
}

/// A call that changes something: its start is durable before it goes on, and so is its end.
async fn one_call(ledger: &SqliteLedger, principal: &Arc<Principal>) {
    let request = CallRequest::new("write", json!({"path": "a.txt"}), Arc::clone(principal));
    let id = request.id;
    let happened = |event| RecordedEvent {
        call: id,
        at: Timestamp(0),
        event,
    };
    let record = ledger.open(&request, Timestamp(0)).await.unwrap();
    let begun = vec![
        happened(CallEvent::Validated {
            coercions: Vec::new(),
        }),
        happened(CallEvent::Admitted {
            waited: Duration::ZERO,
        }),
        happened(CallEvent::Started {
            tier: Tier::InProcess,
            approval: None,
            grants: Vec::new(),
            read_from: None,
        }),
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

/// Fills the list of calls without making them, which would take hours.
async fn fill(directory: &Path, rows: u64) {
    open(directory).await.close().await.unwrap();
    let path = directory.join("ledger.db");
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display()))
        .await
        .unwrap();
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
         INSERT INTO call (tenant, id, session, session_kind, user, agent, asked_tool, tool,
             opened_at, read_only, redacted, terminal, settled_at, summary, owner)
         SELECT 'local', randomblob(16), 's' || (i % ?2), 'main', 'ada', 'agent', 'bash',
             'builtin/bash', i, 0, 0, 'succeeded', i, 'cargo test number ' || i, 'gone' FROM n",
    )
    .bind(i64::try_from(rows).unwrap())
    .bind(i64::try_from(SESSIONS).unwrap())
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
}

async fn last_twenty(ledger: &SqliteLedger, read: usize) -> f64 {
    let query = CallQuery {
        session: Some(SessionId::parse(&format!("s{}", read % SESSIONS)).unwrap()),
        limit: 20,
        ..CallQuery::default()
    };
    let tenant = TenantId::parse("local").unwrap();
    let begun = Instant::now();
    let calls = ledger.calls(&tenant, &query).await.unwrap();
    let took = begun.elapsed();
    assert_eq!(calls.len(), 20);
    took.as_secs_f64()
}

async fn open(directory: &Path) -> SqliteLedger {
    let options = LedgerOptions::new(directory, Arc::new(SystemClock));
    SqliteLedger::open(options).await.unwrap().0
}

fn principal(session: &str) -> Arc<Principal> {
    Arc::new(Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse(session).unwrap(),
    ))
}
