//! Row 15: what a call costs in the ledger under load and on the disk, and how long the last twenty
//! calls of a session take to read as the record grows.

use std::{
    fmt::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::{
    Access, AgentId, CallEvent, CallRequest, Content, Effects, Facts, Labels, Outcome, PlanParts,
    Principal, ProviderId, SessionId, TenantId, Terminal, ToolKey, ToolName, UserId, WorkPath,
    WorkspaceId,
    event::RecordedEvent,
    host::{
        CallQuery, Decision, Durability, History as _, Ledger as _, PolicyVersion, RuleRef,
        Timestamp, Verdict,
    },
    ops::{BackendId, Tier},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_runtime::SystemClock;
use serde_json::json;
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use tokio::runtime::Runtime;

use crate::{
    Scale,
    measure::{median, used},
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

/// Calls of the records whose size is taken.
const CALLS_ON_DISK: usize = 5_000;

pub(crate) fn rows(scale: Scale) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = setting::many_threads();
    let mut rows = vec![load(scale, &runtime, folder.path())];
    runtime.block_on(async {
        rows.push(reads(scale, folder.path()).await);
        rows.push(on_disk(folder.path(), 0, 1_450.0).await);
        rows.push(on_disk(folder.path(), 4_096, 3_750.0).await);
    });
    rows
}

/// What a call costs all threads while many wait for the disk.
fn load(scale: Scale, runtime: &Runtime, folder: &Path) -> Row {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let directory = folder.join(format!("load{round}"));
        let mut calls = 0;
        let used = used(|| calls = runtime.block_on(under_load(&directory, scale.ledger_run)));
        ours.push((used.process / calls as f64, calls as f64 / used.wall));
        let file = folder.join(format!("single{round}.db"));
        bare.push(runtime.block_on(one_row_a_transaction(&file, scale.ledger_run)));
    }
    let cpu = median(ours.iter().map(|(cpu, _)| *cpu));
    let rate = median(ours.iter().map(|(_, rate)| *rate));
    Row {
        number: 15,
        metric: format!(
            "a call that waits until its start and its end are durable, {CALLERS} at once (CPU of all threads)"
        ),
        ours: time(cpu),
        bare: "–".to_owned(),
        figure: cpu,
        goal: Goal::Seconds(30e-6),
        beside: format!(
            "{rate:.0} calls a second, where one durable row a transaction makes {:.0}",
            median(bare.into_iter())
        ),
        limits: "the callers' own part of it, two trips through the queue, and two rows with their \
                 indexes",
    }
}

/// What a call takes on the disk, everything that was caught up with included.
async fn on_disk(folder: &Path, output: usize, goal: f64) -> Row {
    let directory = folder.join(format!("disk{output}"));
    let ledger = open(&directory).await;
    let tenant = TenantId::parse("local").unwrap();
    for number in 0..CALLS_ON_DISK {
        plain_call(
            &ledger,
            &principal(&format!("s{}", number % SESSIONS)),
            number,
            output,
        )
        .await;
    }
    ledger.flush().await.unwrap();
    while ledger.catch_up().await.unwrap() > 0 {}
    assert_eq!(
        ledger.sessions(&tenant, &[], SESSIONS).await.unwrap().len(),
        SESSIONS
    );
    ledger.close().await.unwrap();
    let bytes = std::fs::metadata(directory.join("ledger.db"))
        .unwrap()
        .len();
    let each = bytes as f64 / CALLS_ON_DISK as f64;
    Row {
        number: 15,
        metric: match output {
            0 => "a call on the disk, without output, searchable".to_owned(),
            output => format!("the same with {output} bytes of output"),
        },
        ours: crate::report::bytes(each),
        bare: "–".to_owned(),
        figure: each,
        goal: Goal::Bytes(goal),
        beside: format!("the record of {CALLS_ON_DISK} calls, divided"),
        limits: "the events of a call as JSON, and the words of its output in the index",
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

/// How many calls were made, each durable before its caller went on.
async fn under_load(directory: &Path, run: Duration) -> usize {
    let ledger = open(directory).await;
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|index| {
            let (ledger, principal) = (ledger.clone(), principal(&format!("s{}", index % 16)));
            tokio::spawn(async move {
                let mut calls = 0;
                while begun.elapsed() < run {
                    one_call(&ledger, &principal).await;
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let mut calls = 0;
    for caller in callers {
        calls += caller.await.unwrap();
    }
    ledger.close().await.unwrap();
    calls
}

/// A call that only reads: nothing of it waits for the disk.
async fn plain_call(
    ledger: &StoredLedger,
    principal: &Arc<Principal>,
    number: usize,
    output: usize,
) {
    let input = json!({"path": format!("src/file_{number}.rs")});
    let request = CallRequest::new("read", input.clone(), Arc::clone(principal));
    let id = request.id;
    let at = Timestamp(1_700_000_000_000_000 + i64::try_from(number).unwrap());
    let happened = |event| RecordedEvent {
        call: id,
        at,
        event,
    };
    let record = ledger.open(&request, at).await.unwrap();
    let tool = ToolKey::new(ProviderId::builtin(), ToolName::parse("read").unwrap());
    let path = WorkPath::relative(&format!("src/file_{number}.rs")).unwrap();
    let plan = PlanParts {
        tool: tool.clone(),
        action: None,
        input,
        accesses: vec![Access::read(path)],
        effects: Effects::READ_ONLY,
        backend: BackendId::new("local"),
        workspace_id: WorkspaceId::local(),
        workspace: "/home/ada/haft".into(),
        tier: Tier::InProcess,
        egress: None,
        deadline: Duration::from_mins(2),
        read_from: Labels::NONE,
    };
    let decision = Arc::new(Decision {
        verdict: Verdict::Allow,
        rule: Some(RuleRef {
            text: "read(**)".to_owned(),
            source: "preset `workspace`".to_owned(),
            line: None,
        }),
        reason: "the preset allows it".to_owned(),
        access: None,
        withheld: Vec::new(),
        policy: PolicyVersion("b7e23ec29af22b0b".to_owned()),
        grants: Vec::new(),
    });
    let outcome = Outcome {
        call: id,
        tool: Some(tool.clone()),
        terminal: Terminal::Succeeded,
        content: vec![Content::text(source_text(number, output))],
        structured: None,
        error: None,
        facts: Facts::default(),
    };
    let events = vec![
        CallEvent::Resolved { tool },
        CallEvent::Validated {
            coercions: Vec::new(),
        },
        CallEvent::Planned {
            plan: Arc::new(plan.seal()),
        },
        CallEvent::Decided { decision },
        CallEvent::Admitted {
            waited: Duration::from_micros(12),
        },
        CallEvent::Started {
            tier: Tier::InProcess,
            approval: None,
            grants: Vec::new(),
            read_from: None,
        },
        CallEvent::Settled {
            outcome: Arc::new(outcome),
        },
    ];
    record.settle(events.into_iter().map(happened).collect());
}

/// Lines as a program has them, other words in each.
fn source_text(number: usize, length: usize) -> String {
    let mut text = String::with_capacity(length + 80);
    let mut line = number * 7_919;
    while text.len() < length {
        line += 1;
        let (a, b) = (line % 997, line % 89);
        writeln!(
            text,
            "    let value_{a} = compute_{b}(&input[{line}..], limit);"
        )
        .unwrap();
    }
    text.truncate(length);
    text
}

/// A call that changes something: its start is durable before it goes on, and so is its end.
async fn one_call(ledger: &StoredLedger, principal: &Arc<Principal>) {
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

/// Fills the record without making all of its calls, which would take hours: one call of each
/// session is made, and its row copied.
async fn fill(directory: &Path, rows: u64) {
    let ledger = open(directory).await;
    for session in 0..SESSIONS {
        plain_call(&ledger, &principal(&format!("s{session}")), session, 200).await;
    }
    ledger.close().await.unwrap();
    let path = directory.join("ledger.db");
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display()))
        .await
        .unwrap();
    sqlx::query(
        "WITH RECURSIVE n (i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
         INSERT INTO record SELECT n.i + 1, tenant, session, principal, randomblob(16), part, n.i + 1, at,
             terminal, writer, n.i + 1, form, body, hash
         FROM n JOIN record r ON r.position = n.i % ?2 + 1",
    )
    .bind(i64::try_from(rows).unwrap())
    .bind(i64::try_from(SESSIONS).unwrap())
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
}

async fn last_twenty(ledger: &StoredLedger, read: usize) -> f64 {
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

async fn open(directory: &Path) -> StoredLedger {
    let options = LedgerOptions::new(directory, Arc::new(SystemClock));
    StoredLedger::open(options).await.unwrap().0
}

fn principal(session: &str) -> Arc<Principal> {
    Arc::new(Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse(session).unwrap(),
    ))
}
