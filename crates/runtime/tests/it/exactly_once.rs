//! Promise 3: every call ends exactly once, whatever happens to it and in whatever order.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use haft_contract::{
    Access, CallEvent, CallId, Effects, ErrorKind, Terminal, ToolError, WorkPath, ops::Stream,
};
use haft_runtime::Limits;
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

/// What one random call does, and what is done to it.
#[derive(Debug, Clone)]
struct Case {
    tool: &'static str,
    path: u8,
    runs_ms: u64,
    cancel_after_ms: Option<u64>,
    drop_after_ms: Option<u64>,
    timeout_ms: Option<u64>,
    answer: ScriptedAnswer,
}

fn case() -> impl Strategy<Value = Case> {
    let tool = prop_oneof![
        Just("work"),
        Just("panic"),
        Just("panic_in_plan"),
        Just("stubborn"),
        Just("fail"),
        Just("no_such_tool"),
    ];
    let soon = || prop::option::weighted(0.3, 0..30_u64);
    let answer = prop_oneof![
        4 => Just(ScriptedAnswer::Approve),
        1 => Just(ScriptedAnswer::Refuse("no".into())),
        1 => Just(ScriptedAnswer::NeverAnswer),
        1 => Just(ScriptedAnswer::WrongDigest),
    ];
    (tool, 0..3_u8, 0..20_u64, soon(), soon(), soon(), answer).prop_map(
        |(tool, path, runs_ms, cancel_after_ms, drop_after_ms, timeout_ms, answer)| Case {
            tool,
            path,
            runs_ms,
            cancel_after_ms,
            drop_after_ms,
            timeout_ms,
            answer,
        },
    )
}

fn harness(cases: &[Case]) -> Harness {
    let path = |input: &Value| WorkPath::relative(input["path"].as_str().unwrap()).unwrap();
    let make = |name: &'static str| {
        Scripted::new(name, move |input: Value, cx| async move {
            let runs = Duration::from_millis(input["runs_ms"].as_u64().unwrap());
            cx.output().push(Stream::Stdout, b"working\n").await;
            if name == "stubborn" {
                tokio::time::sleep(Duration::from_mins(5)).await;
            }
            tokio::select! {
                () = tokio::time::sleep(runs) => {}
                () = cx.cancel().cancelled() => {
                    return Err(ToolError::new(ErrorKind::Cancelled, "stopped"));
                }
            }
            match name {
                "panic" => panic!("as asked"),
                "fail" => Err(ToolError::new(ErrorKind::Io, "as asked")),
                _ => Ok(json!("done")),
            }
        })
        .effects(Effects::CHANGES)
        .accesses(move |input| {
            assert!(name != "panic_in_plan", "as asked");
            vec![Access::write(path(input))]
        })
        .tool()
    };
    let limits = Limits {
        approval_wait: Duration::from_millis(25),
        stop_grace: Duration::from_millis(5),
        ..Limits::default()
    };
    let person = ScriptedApprover::new(cases.iter().map(|case| case.answer.clone()));
    Harness::memory()
        .tools(
            ["work", "panic", "panic_in_plan", "stubborn", "fail"]
                .map(make)
                .into(),
        )
        .policy(FixedPolicy::ask_all())
        .person(&person)
        .limits(limits)
        .build()
}

async fn one(harness: &Harness, case: Case) -> (CallId, Option<Terminal>) {
    let arguments = json!({"path": format!("f{}", case.path), "runs_ms": case.runs_ms});
    let mut request = harness.request(case.tool, arguments);
    request.timeout = case.timeout_ms.map(Duration::from_millis);
    let call = request.id;
    let cancel = CancellationToken::new();
    let canceller = cancel.clone();
    let cancelling = async move {
        match case.cancel_after_ms {
            Some(after) => {
                tokio::time::sleep(Duration::from_millis(after)).await;
                canceller.cancel();
            }
            None => std::future::pending().await,
        }
    };
    let dropping = async move {
        match case.drop_after_ms {
            Some(after) => tokio::time::sleep(Duration::from_millis(after)).await,
            None => std::future::pending().await,
        }
    };
    let running = AssertUnwindSafe(harness.runtime.call_until(request, cancel)).catch_unwind();
    tokio::pin!(running, cancelling);
    let ended = async {
        tokio::select! {
            outcome = &mut running => Some(outcome.expect("a panic never leaves the runtime").terminal),
            () = &mut cancelling => {
                Some((&mut running).await.expect("a panic never leaves the runtime").terminal)
            }
        }
    };
    tokio::select! {
        terminal = ended => (call, terminal),
        () = dropping => (call, None),
    }
}

fn check(cases: Vec<Case>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let harness = harness(&cases);
        let ended =
            futures_util::future::join_all(cases.iter().map(|case| one(&harness, case.clone())))
                .await;
        assert_eq!(harness.runtime.in_flight(), 0);
        for ((call, returned), case) in ended.into_iter().zip(&cases) {
            let settled: Vec<_> = harness
                .events
                .of(call)
                .into_iter()
                .filter_map(|event| match event {
                    CallEvent::Settled { outcome } => Some(outcome.terminal),
                    _ => None,
                })
                .collect();
            // A caller that is gone before the call was even taken in has made no call.
            let opened = harness.events.kinds(call).contains(&"opened");
            assert!(opened || returned.is_none(), "{case:?}");
            assert_eq!(
                settled.len(),
                usize::from(opened),
                "{case:?} settled {settled:?}"
            );
            if let Some(returned) = returned {
                assert_eq!(settled, [returned], "{case:?}");
            }
            let recorded = harness.ledger.kinds(call);
            let count = recorded.iter().filter(|kind| **kind == "settled").count();
            assert_eq!(count, usize::from(opened), "{case:?} recorded {recorded:?}");
        }
        assert!(harness.ledger.open_calls().is_empty());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn every_call_ends_exactly_once_under_cancel_panic_timeout_and_drop(
        cases in prop::collection::vec(case(), 1..12)
    ) {
        check(cases);
    }
}

#[tokio::test]
async fn a_panic_in_a_tool_is_an_outcome() {
    let tool = Scripted::new("bad", |_, _| async { panic!("as asked") });
    let harness = Harness::memory()
        .tools(vec![tool.tool(), Scripted::echo("ok").tool()])
        .build();
    let outcome = harness.fail("bad", json!({})).await;
    assert_eq!(outcome.terminal, Terminal::Failed);
    assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::Internal);
    assert!(
        !outcome.model_text().contains("as asked"),
        "internals stay in the log"
    );
    harness.succeed("ok", json!({})).await;
}

#[tokio::test]
async fn a_dropped_call_is_stopped_and_settled_as_cancelled() {
    let (told, stopped) = tokio::sync::oneshot::channel::<()>();
    let told = Arc::new(std::sync::Mutex::new(Some(told)));
    let begun = Arc::<tokio::sync::Notify>::default();
    let begins = Arc::clone(&begun);
    let tool = Scripted::new("long", move |_, cx| {
        let told = told.lock().unwrap().take();
        begins.notify_one();
        let token = cx.cancel().clone();
        tokio::spawn(async move {
            token.cancelled().await;
            drop(told);
        });
        async move {
            std::future::pending::<()>().await;
            Ok(json!(null))
        }
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    let request = harness.request("long", json!({}));
    let call = request.id;
    let running = harness.runtime.call(request);
    tokio::select! {
        outcome = running => panic!("it ended: {}", outcome.model_text()),
        () = begun.notified() => {}
    }
    let _ = stopped.await;
    assert_eq!(harness.ledger.kinds(call).last(), Some(&"settled"));
    assert_eq!(harness.runtime.in_flight(), 0);
}
