//! Calls that one process accepts and another runs: runtimes on ledgers of one directory, and a real
//! process that is killed in the middle of a call it has claimed.

use std::{path::Path, sync::Arc};

use haft_contract::{
    CallContext, CallId, CallRequest, Effects, NoProgress, Plan, PlanContext, Terminal, Tool,
    ToolError, ToolSpec,
    erased::erase,
    host::{Acceptance, Epoch, History as _, Ledger as _, LedgerErrorKind},
};
use haft_ledger::StoredLedger;
use haft_testkit::{FixedPolicy, Harness, principal, sample};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    child,
    support::{Fixture, database},
};

/// How many calls two workers race for.
const RACES: usize = 12;

/// Changes something, and takes its time.
#[derive(Debug, Clone, Copy)]
struct Hang;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HangInput {}

impl Tool for Hang {
    type Input = HangInput;
    type Output = ();
    type Progress = NoProgress;
    const NAME: &'static str = "hang";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Hang",
            "Never ends. Use it to test; do not use it for work.",
        )
    }

    fn plan(&self, _: &HangInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::CHANGES))
    }

    async fn run(&self, _: HangInput, cx: CallContext<NoProgress>) -> Result<(), ToolError> {
        cx.cancel().cancelled().await;
        Ok(())
    }
}

/// A process that runs calls.
fn worker(ledger: &StoredLedger) -> Harness {
    under(FixedPolicy::allow_all(), ledger)
}

fn under(policy: FixedPolicy, ledger: &StoredLedger) -> Harness {
    let tools = vec![
        erase(sample::Append).unwrap(),
        erase(sample::Sleep).unwrap(),
        erase(Hang).unwrap(),
    ];
    Harness::memory()
        .policy(policy)
        .ledger(Arc::new(ledger.clone()))
        .tools(tools)
        .build()
}

/// A call that writes a line, each another one.
fn append() -> CallRequest {
    let line = format!("token=hunter22-{}", CallId::new());
    let arguments = json!({ "path": "sent", "line": line });
    CallRequest::new("append", arguments, principal())
}

fn lines_sent(harness: &Harness) -> usize {
    let sent = harness.tree.bytes("sent").unwrap_or_default();
    String::from_utf8(sent).unwrap().lines().count()
}

fn token() -> CancellationToken {
    CancellationToken::new()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_call_is_run_once_by_whoever_claims_it() {
    let fixture = Fixture::new();
    let (here, there) = (fixture.open().await, fixture.open().await);
    let (one, two) = (worker(&here), worker(&there));
    for race in 1..=RACES {
        let request = append();
        let (tenant, call) = (request.principal.tenant.clone(), request.id);
        let accepted = one.runtime.accept(request.clone()).await.unwrap();
        assert_eq!(accepted, Acceptance::Accepted);
        assert_eq!(
            lines_sent(&one) + lines_sent(&two),
            race - 1,
            "nothing ran yet"
        );
        let (first, second) = tokio::join!(
            one.runtime.resume(&tenant, call, Epoch::FIRST, token()),
            two.runtime.resume(&tenant, call, Epoch::FIRST, token()),
        );
        let (ran, lost) = match (first, second) {
            (Ok(ran), Err(lost)) | (Err(lost), Ok(ran)) => (ran, lost),
            both => panic!("{both:?}"),
        };
        assert!(ran.succeeded(), "{ran:?}");
        assert!(
            [LedgerErrorKind::Superseded, LedgerErrorKind::Over].contains(&lost.kind()),
            "{lost}"
        );
        assert_eq!(lines_sent(&one) + lines_sent(&two), race);
        let again = two
            .runtime
            .resume(&tenant, call, Epoch::FIRST.next(), token());
        assert_eq!(again.await.unwrap_err().kind(), LedgerErrorKind::Over);
        assert_eq!(
            two.runtime.accept(request).await.unwrap(),
            Acceptance::AcceptedBefore
        );
    }
    // The whole request was kept only for as long as somebody had to run it.
    let mut connection = database(&fixture.directory()).await;
    let (kept, whole): (i64, i64) = sqlx::query_as("SELECT count(*), count(request) FROM accepted")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!((kept, whole), (i64::try_from(RACES).unwrap(), 0));
    for ledger in [here, there] {
        ledger.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_call_walks_every_stage() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let gateway = worker(&ledger);
    let request = append();
    let (tenant, call) = (request.principal.tenant.clone(), request.id);
    gateway.runtime.accept(request).await.unwrap();
    // The rules are those of whoever runs it, at that moment.
    let forbidding = under(FixedPolicy::deny_all(), &ledger);
    let denied = forbidding
        .runtime
        .resume(&tenant, call, Epoch::FIRST, token());
    assert_eq!(denied.await.unwrap().terminal, Terminal::Denied);
    assert_eq!(lines_sent(&forbidding), 0);
    let events = ledger.events(&tenant, call).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    for stage in ["opened", "resolved", "planned", "decided", "settled"] {
        assert_eq!(
            kinds.iter().filter(|kind| **kind == stage).count(),
            1,
            "{kinds:?}"
        );
    }
    ledger.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_was_tampered_with_is_not_run() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let runs = worker(&ledger);
    for change in [
        "UPDATE accepted SET request = replace(request, 'sent', 'other')",
        "UPDATE accepted SET epoch = 0, digest = zeroblob(32)",
    ] {
        let request = append();
        let (tenant, call) = (request.principal.tenant.clone(), request.id);
        runs.runtime.accept(request).await.unwrap();
        let mut connection = database(&fixture.directory()).await;
        sqlx::query(change).execute(&mut connection).await.unwrap();
        let refused = runs.runtime.resume(&tenant, call, Epoch::FIRST, token());
        assert_eq!(refused.await.unwrap_err().kind(), LedgerErrorKind::Corrupt);
    }
    assert!(runs.tree.bytes("sent").is_none() && runs.tree.bytes("other").is_none());
    ledger.close().await.unwrap();
}

/// The part of the process that is killed: it claims a call, and is in the middle of it.
pub(crate) async fn hold(ledger: &StoredLedger, tool: &str) {
    let runs = worker(ledger);
    let arguments = match tool {
        "sleep" => json!({ "ms": 3_600_000 }),
        _ => json!({}),
    };
    let request = CallRequest::new(tool, arguments, principal());
    let (tenant, call) = (request.principal.tenant.clone(), request.id);
    runs.runtime.accept(request).await.unwrap();
    let running = runs.runtime.resume(&tenant, call, Epoch::FIRST, token());
    let on_record = async {
        started(ledger, call, 1).await;
        println!("at its point");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = running => panic!("the call has ended: {ended:?}"),
        () = on_record => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_killed_loses_nothing_and_repeats_nothing() {
    for (tool, repeats) in [("hang", false), ("sleep", true)] {
        let fixture = Fixture::new();
        let directory = fixture.directory();
        let part = format!("hold_{tool}");
        child::play(&part, Path::new(&directory)).kill();
        let ledger = fixture.open().await;
        let runs = worker(&ledger);
        let tenant = principal().tenant.clone();
        let call = only_call(&ledger).await;
        let stored = ledger.call(&tenant, call).await.unwrap().unwrap();
        assert_eq!(stored.terminal, None, "it is left to whoever claims it");
        let stale = runs.runtime.resume(&tenant, call, Epoch::FIRST, token());
        assert_eq!(stale.await.unwrap_err().kind(), LedgerErrorKind::Superseded);
        let cancel = token();
        let next = runs
            .runtime
            .resume(&tenant, call, Epoch::FIRST.next(), cancel.clone());
        if repeats {
            let stops = async {
                started(&ledger, call, 2).await;
                cancel.cancel();
            };
            let (outcome, ()) = tokio::join!(next, stops);
            let terminal = outcome.unwrap().terminal;
            assert_eq!(terminal, Terminal::Cancelled, "it ran again");
        } else {
            assert_eq!(next.await.unwrap_err().kind(), LedgerErrorKind::Over);
            let stored = ledger.call(&tenant, call).await.unwrap().unwrap();
            assert_eq!(stored.terminal, Some(Terminal::Unknown));
        }
        ledger.close().await.unwrap();
    }
}

/// Waits until a call was started so often.
async fn started(ledger: &StoredLedger, call: CallId, times: usize) {
    loop {
        ledger.flush().await.unwrap();
        let events = ledger.events(&principal().tenant, call).await.unwrap();
        let starts = events.iter().filter(|event| event.kind == "started");
        if starts.count() >= times {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn only_call(ledger: &StoredLedger) -> CallId {
    let query = haft_contract::host::CallQuery {
        limit: 2,
        ..Default::default()
    };
    let calls = ledger.calls(&principal().tenant, &query).await.unwrap();
    assert_eq!(calls.len(), 1);
    calls[0].id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_request_is_removed_once_it_ended_long_ago() {
    let fixture = Fixture::new();
    let ledger = fixture.open().await;
    let runs = worker(&ledger);
    let (ended, waiting) = (append(), append());
    for request in [&ended, &waiting] {
        runs.runtime.accept(request.clone()).await.unwrap();
    }
    let tenant = ended.principal.tenant.clone();
    let ran = runs
        .runtime
        .resume(&tenant, ended.id, Epoch::FIRST, token());
    assert!(ran.await.unwrap().succeeded());
    ledger.close().await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM accepted").await, 2);
    fixture.tamper("UPDATE accepted SET at = 0").await;
    let ledger = fixture.open().await;
    let left = "SELECT count(*) FROM accepted WHERE request IS NOT NULL";
    assert_eq!(
        fixture.number(left).await,
        1,
        "what is still to be run stays"
    );
    assert_eq!(fixture.number("SELECT count(*) FROM accepted").await, 1);
    ledger.close().await.unwrap();
}
