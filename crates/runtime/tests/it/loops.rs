//! The loop guard: a session that repeats itself is told so, then a person is asked.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use haft_contract::{
    CallEvent, CallRequest, ErrorKind, Outcome, Terminal, ToolError, host::Verdict,
    outcome::DeniedBy,
};
use haft_runtime::{LOOP_GUARD, LoopGuard};
use haft_testkit::{
    Harness, ScriptedApprover, approver::ScriptedAnswer, harness::HarnessBuilder,
    principal::in_session,
};
use serde_json::{Value, json};

use crate::scripted::Scripted;

/// `same` gives its input back, `tick` counts, `fail` fails; `say` is an alias of `same`.
fn tools() -> HarnessBuilder {
    let ticks = Arc::new(AtomicU64::new(0));
    let tick = Scripted::new("tick", move |_, _| {
        let ticks = Arc::clone(&ticks);
        async move { Ok(json!(ticks.fetch_add(1, Ordering::SeqCst))) }
    });
    let fail = Scripted::new("fail", |_, _| async {
        Err(ToolError::new(ErrorKind::NoMatch, "the text is not there"))
    });
    let strict = Scripted::echo("strict").schema(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "additionalProperties": false,
    }));
    Harness::memory().tools(vec![
        Scripted::echo("same").tool(),
        tick.tool(),
        fail.tool(),
        strict.tool(),
    ])
}

fn warned(outcome: &Arc<Outcome>) -> bool {
    outcome.model_text().contains("[loop guard: ")
}

async fn times(harness: &Harness, tool: &str, input: Value, times: usize) -> Arc<Outcome> {
    let mut last = harness.call(tool, input.clone()).await;
    for _ in 1..times {
        last = harness.call(tool, input.clone()).await;
    }
    last
}

#[tokio::test]
async fn a_repeated_call_is_warned_about_and_then_asked_about() {
    let harness = tools().build();
    for count in 1..=6 {
        let outcome = harness.succeed("same", json!({"a": 1, "b": 2})).await;
        assert_eq!(warned(&outcome), count >= 3, "{count}");
    }
    // The same input in another order is the same call. Nobody is there to ask.
    for _ in 0..3 {
        let outcome = harness.fail("same", json!({"b": 2, "a": 1})).await;
        assert_eq!(outcome.terminal, Terminal::Denied);
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::NobodyToAsk));
        let text = outcome.model_text();
        assert!(
            text.contains("the same `same` call has given the same result 6 times in a row"),
            "{text}"
        );
        let rule = outcome
            .facts
            .decision
            .as_ref()
            .unwrap()
            .rule
            .clone()
            .unwrap();
        assert_eq!(rule.to_string(), "`ask = 6` (loop guard)");
        assert_eq!(rule.source, LOOP_GUARD);
    }
    // Something else is not asked about, and ends the repetition.
    assert!(!warned(&harness.succeed("tick", json!({})).await));
    assert!(!warned(&harness.succeed("same", json!({"a": 2})).await));
    assert!(!warned(
        &harness.succeed("same", json!({"a": 1, "b": 2})).await
    ));
}

#[tokio::test]
async fn an_approval_lets_one_repetition_through() {
    let person = ScriptedApprover::new([
        ScriptedAnswer::Approve,
        ScriptedAnswer::Refuse("enough".into()),
    ]);
    let harness = tools().person(&person).build();
    times(&harness, "same", json!({}), 6).await;
    let seventh = harness.succeed("same", json!({})).await;
    assert!(warned(&seventh));
    let decided = seventh.facts.decision.clone().unwrap();
    assert_eq!(decided.verdict, Verdict::Ask);
    let eighth = harness.fail("same", json!({})).await;
    assert_eq!(eighth.facts.denied_by, Some(DeniedBy::Person));
    assert!(!warned(&eighth));
    // What was refused did not happen: the next one is asked about again.
    let ninth = harness.fail("same", json!({})).await;
    assert_eq!(ninth.facts.denied_by, Some(DeniedBy::NobodyToAsk));
    assert_eq!(person.asked().len(), 3);
    let asks = |event: &CallEvent| matches!(event, CallEvent::Decided { decision } if decision.verdict == Verdict::Ask);
    let recorded = harness.events.all();
    assert_eq!(
        recorded
            .iter()
            .filter(|happened| asks(&happened.event))
            .count(),
        3
    );
}

#[tokio::test]
async fn two_calls_turn_and_turn_about_are_a_loop_too() {
    let harness = tools().build();
    let mut outcomes = Vec::new();
    for _ in 0..7 {
        outcomes.push(harness.call("same", json!({})).await);
        outcomes.push(harness.call("fail", json!({})).await);
    }
    for (index, outcome) in outcomes.iter().enumerate() {
        let round = index / 2 + 1;
        assert_eq!(warned(outcome), (3..=6).contains(&round), "{index}");
        assert_eq!(outcome.terminal == Terminal::Denied, round == 7, "{index}");
    }
    assert!(outcomes[4].model_text().contains("alternating"));
}

#[tokio::test]
async fn a_result_that_changes_is_no_loop() {
    let harness = tools().build();
    for _ in 0..50 {
        assert!(!warned(&harness.succeed("tick", json!({})).await));
    }
    // Nor with another call in between that stays the same: something moved.
    for _ in 0..50 {
        assert!(!warned(&harness.succeed("tick", json!({})).await));
        assert!(!warned(&harness.succeed("same", json!({})).await));
    }
}

#[tokio::test]
async fn a_call_that_is_refused_before_it_runs_is_counted_too() {
    let harness = tools().build();
    for (tool, input) in [("strict", json!({"m": 1})), ("nowhere", json!({}))] {
        for count in 1..=8 {
            let outcome = harness.fail(tool, input.clone()).await;
            assert_eq!(outcome.terminal, Terminal::Failed);
            assert_eq!(warned(&outcome), count >= 3, "{tool} {count}");
        }
    }
}

#[tokio::test]
async fn the_counts_are_settings_and_zero_is_off() {
    let check = async |guard: LoopGuard, warns_from: usize, asks_from: usize| {
        let harness = tools()
            .configure(|builder| builder.loop_guard(guard))
            .build();
        for count in 1..=12 {
            let outcome = harness.call("same", json!({})).await;
            assert_eq!(outcome.succeeded(), count < asks_from, "{guard:?} {count}");
            assert_eq!(
                warned(&outcome),
                (warns_from..asks_from).contains(&count),
                "{guard:?} {count}"
            );
        }
    };
    check(LoopGuard { warn: 2, ask: 4 }, 2, 5).await;
    check(LoopGuard { warn: 0, ask: 2 }, 99, 3).await;
    check(LoopGuard { warn: 1, ask: 0 }, 1, 99).await;
    check(LoopGuard::OFF, 99, 99).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_sessions_side_by_side_do_not_mix() {
    let harness = Arc::new(tools().build());
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..100_usize {
        let harness = Arc::clone(&harness);
        tasks.spawn(async move {
            let principal = in_session(&format!("s{session}"));
            // Each session repeats the same call, and each another number of times.
            let repeats = session % 8 + 1;
            let mut seen = Vec::new();
            for _ in 0..repeats {
                let request = CallRequest::new("same", json!({}), Arc::clone(&principal));
                let outcome = harness.runtime.call(request).await;
                seen.push((warned(&outcome), outcome.succeeded()));
                tokio::task::yield_now().await;
            }
            for (index, (warned, succeeded)) in seen.into_iter().enumerate() {
                assert_eq!(warned, (2..6).contains(&index), "{session} {index}");
                assert_eq!(succeeded, index < 6, "{session} {index}");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
