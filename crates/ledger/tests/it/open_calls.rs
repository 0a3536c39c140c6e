//! Calls that stay open: their events wait for more, and are there when somebody needs them.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallContext, CallEvent, Effects, NoProgress, Plan, PlanContext, Terminal, Tool, ToolError,
    ToolSpec,
    erased::erase,
    host::{CallQuery, Durability, History as _, Ledger as _, LedgerErrorKind, Verification},
};
use haft_ledger::StoredLedger;
use haft_testkit::{Harness, sample};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::support::{Fixture, NOW, at, request, settled, started, tenant, whole_call, writes};

/// Longer than any test: what is written has been asked for.
const FOREVER: Duration = Duration::from_hours(1);

/// A ledger whose open calls stay with the writer.
async fn patient(fixture: &Fixture) -> StoredLedger {
    let mut options = fixture.options();
    options.linger = Duration::ZERO;
    options.open_linger = FOREVER;
    StoredLedger::open(options).await.unwrap().0
}

/// Gives the writer time to take what was queued. Nothing here fails where that takes longer: it is
/// only then that a flush would find the call still queued.
async fn until_taken() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn rows(fixture: &Fixture) -> i64 {
    fixture.number("SELECT count(*) FROM record").await
}

/// Stands for a command: it may change anything, and tells of no file.
struct Command;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Tool for Command {
    type Input = Nothing;
    type Output = String;
    type Progress = NoProgress;
    const NAME: &'static str = "command";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Command", "Changes something.").effects(Effects::CHANGES)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::CHANGES))
    }

    async fn run(&self, _: Nothing, _: CallContext<NoProgress>) -> Result<String, ToolError> {
        Ok("done".to_owned())
    }
}

/// A call that only looks is written once, when it is over. One that may change something is on disk
/// before it starts, and so has a second row.
#[tokio::test]
async fn a_call_is_one_row_and_two_where_its_intent_had_to_be_durable() {
    let fixture = Fixture::new();
    let ledger = patient(&fixture).await;
    let mut tools = sample::all();
    tools.push(erase(Command).unwrap());
    let harness = Harness::memory()
        .tools(tools)
        .ledger(Arc::new(ledger.clone()))
        .build();
    let mut before = 0;
    for (tool, input, expect) in [
        ("echo", json!({"text": "x"}), 1),
        ("command", json!({}), 2),
        ("echo", json!({"text": "y"}), 1),
    ] {
        harness.succeed(tool, input).await;
        ledger.flush().await.unwrap();
        let after = rows(&fixture).await;
        assert_eq!(after - before, expect, "{tool}");
        before = after;
    }
    ledger.close().await.unwrap();
}

#[tokio::test]
async fn flushing_writes_what_stays_with_the_writer() {
    let fixture = Fixture::new();
    let ledger = patient(&fixture).await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    until_taken().await;
    assert_eq!(rows(&fixture).await, 0);
    ledger.flush().await.unwrap();
    assert_eq!(rows(&fixture).await, 1);
    // Reading makes sure by itself.
    let events = vec![writes(asked.id)];
    record.append(events, Durability::Queued).await.unwrap();
    until_taken().await;
    let found = ledger.events(&tenant(), asked.id).await.unwrap();
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn closing_writes_what_stays_with_the_writer() {
    let fixture = Fixture::new();
    let ledger = patient(&fixture).await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    until_taken().await;
    ledger.close().await.unwrap();
    drop(record);
    let (_ledger, recovery) = fixture.recover().await;
    assert_eq!(recovery.never_started, [asked.id]);
}

#[tokio::test]
async fn a_call_that_stays_open_is_seen_by_others_soon() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let asked = request("s1", "sample", json!({}));
    let _record = here.open(&asked, NOW).await.unwrap();
    for _ in 0..1_000 {
        if there.call(&tenant(), asked.id).await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody else ever saw it");
}

/// Undoing needs what was kept of a file, and people look at a call that they are asked about: both
/// are in the next transaction.
#[tokio::test]
async fn what_happens_to_a_file_does_not_wait_for_the_end() {
    let fixture = Fixture::new();
    let ledger = patient(&fixture).await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let changed = CallEvent::FileChanged {
        path: haft_contract::WorkPath::relative("a.txt").unwrap(),
        after: None,
        artifact: None,
    };
    let events = vec![at(asked.id, changed)];
    record.append(events, Durability::Queued).await.unwrap();
    for _ in 0..1_000 {
        if rows(&fixture).await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it waited for the end of the call");
}

/// A call may have any number of rows before its end.
#[tokio::test]
async fn many_rows_do_not_cost_a_call_its_outcome() {
    const ROWS: u64 = 300;
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    for _ in 0..ROWS {
        let event = CallEvent::Admitted {
            waited: Duration::ZERO,
        };
        let events = vec![at(asked.id, event)];
        record.append(events, Durability::Durable).await.unwrap();
    }
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "done")]);
    record.settled().await.unwrap();
    let call = ledger.call(&tenant(), asked.id).await.unwrap().unwrap();
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    ledger.close().await.unwrap();
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.is_empty());
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert_eq!(verified, Verification::Intact { records: ROWS + 1 });
}

/// One call that cannot be read keeps nobody from searching, starting or opening the record.
#[tokio::test]
async fn a_call_that_cannot_be_read_is_the_only_one() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    for text in ["first", "second"] {
        let (_, record) = whole_call(&ledger, "s1", text).await;
        record.settled().await.unwrap();
    }
    let left_open = request("s1", "sample", json!({}));
    let record = ledger.open(&left_open, NOW).await.unwrap();
    let events = vec![started(left_open.id)];
    record.append(events, Durability::Durable).await.unwrap();
    ledger.close().await.unwrap();
    // What a later version might write, and what nobody wrote.
    fixture
        .tamper(
            "UPDATE record SET form = 9 WHERE position = 2;
             UPDATE record SET body = x'00' WHERE position = 5",
        )
        .await;
    let (ledger, recovery) = fixture.recover().await;
    assert_eq!(recovery.settled_unknown, [left_open.id]);
    let query = CallQuery {
        search: Some("second".to_owned()),
        limit: 9,
        ..CallQuery::default()
    };
    assert_eq!(ledger.calls(&tenant(), &query).await.unwrap().len(), 1);
    // The list has the one that can be read, and the one that was left open is not guessed at.
    let all = CallQuery {
        limit: 9,
        ..CallQuery::default()
    };
    assert_eq!(ledger.calls(&tenant(), &all).await.unwrap().len(), 1);
    let refused = ledger.events(&tenant(), left_open.id).await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::Corrupt);
    let (_, record) = whole_call(&ledger, "s1", "third").await;
    record.settled().await.unwrap();
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Broken { sequence: 2, .. }),
        "{verified:?}"
    );
}
