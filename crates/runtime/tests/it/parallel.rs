//! Batches: side by side where accesses allow it, in call order, failures apart.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Access, Effects, ErrorKind, Terminal, ToolError, WorkPath, host::Verdict, outcome::DeniedBy,
};
use haft_testkit::{FixedPolicy, Harness};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::scripted::Scripted;

const STEP: Duration = Duration::from_millis(100);

/// A tool that takes one step of time and notes who else is inside.
fn harness() -> (Harness, Arc<Mutex<Vec<BTreeSet<String>>>>) {
    let inside: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen: Arc<Mutex<Vec<BTreeSet<String>>>> = Arc::default();
    let log = Arc::clone(&seen);
    let tool = Scripted::new("step", move |input: Value, _| {
        let (inside, log) = (Arc::clone(&inside), Arc::clone(&log));
        async move {
            let name = input["name"].as_str().unwrap().to_owned();
            let now = {
                let mut inside = inside.lock().unwrap();
                inside.insert(name.clone());
                inside.clone()
            };
            log.lock().unwrap().push(now);
            tokio::time::sleep(STEP).await;
            inside.lock().unwrap().remove(&name);
            if input["fail"] == true {
                return Err(ToolError::new(ErrorKind::Io, "failed as asked"));
            }
            Ok(json!(name))
        }
    })
    .effects(Effects::CHANGES)
    .accesses(|input| {
        let path = WorkPath::relative(input["path"].as_str().unwrap()).unwrap();
        vec![match input["mode"].as_str().unwrap() {
            "read" => Access::read(path),
            "tree" => Access::read_tree(path),
            _ => Access::write(path),
        }]
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    harness.tree.put("a", "");
    harness.tree.put("dir/b", "");
    (harness, seen)
}

async fn check(calls: &[(&str, &str)], expect_steps: u32) {
    let (harness, seen) = harness();
    let requests = calls
        .iter()
        .enumerate()
        .map(|(n, (mode, path))| {
            let name = format!("{n}:{mode}:{path}");
            harness.request("step", json!({"name": name, "mode": mode, "path": path}))
        })
        .collect();
    let started = Instant::now();
    let outcomes = harness.runtime.batch(requests).await;
    assert_eq!(
        started.elapsed(),
        STEP * expect_steps,
        "{calls:?}: {:?}",
        seen.lock().unwrap()
    );
    let names: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.structured.clone().unwrap())
        .collect();
    let expect: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(n, (mode, path))| json!(format!("{n}:{mode}:{path}")))
        .collect();
    assert_eq!(names, expect, "results come back in call order");
}

#[tokio::test(start_paused = true)]
async fn calls_share_or_queue_by_what_they_touch() {
    check(&[("read", "a"), ("read", "a"), ("read", "a")], 1).await;
    check(&[("write", "a"), ("write", "a"), ("write", "a")], 3).await;
    check(&[("write", "a"), ("write", "dir/b"), ("write", "new")], 1).await;
    check(&[("tree", "."), ("read", "a"), ("write", "dir/b")], 2).await;
    check(&[("write", "not/there"), ("write", "not/there")], 2).await;
}

/// Two calls that touch one file, of which the first to run changes the rules: how the second
/// ends, and how many of them ran.
async fn rules_change_while_waiting(to: Verdict) -> (Terminal, Option<DeniedBy>, String, usize) {
    let rules = Arc::new(Mutex::new(Verdict::Allow));
    let runs = Arc::<AtomicUsize>::default();
    let tool = Scripted::new("act", {
        let (rules, runs) = (Arc::clone(&rules), Arc::clone(&runs));
        move |_, _| {
            runs.fetch_add(1, Ordering::SeqCst);
            let rules = Arc::clone(&rules);
            async move {
                tokio::time::sleep(STEP).await;
                *rules.lock().unwrap() = to;
                Ok(json!("done"))
            }
        }
    })
    .effects(Effects::CHANGES)
    .accesses(|_| vec![Access::write(WorkPath::relative("a").unwrap())]);
    let harness = Harness::memory()
        .tools(vec![tool.tool()])
        .policy(FixedPolicy::by(move |_| *rules.lock().unwrap()))
        .build();
    let requests = [1, 2].map(|n| harness.request("act", json!({ "n": n })));
    let outcomes = harness.runtime.batch(requests.into()).await;
    assert!(outcomes[0].succeeded(), "{}", outcomes[0].model_text());
    let second = &outcomes[1];
    let text = second.model_text();
    let runs = runs.load(Ordering::SeqCst);
    (second.terminal, second.facts.denied_by, text, runs)
}

/// A call that waited for its turn is judged by the rules of the moment at which it comes.
#[tokio::test(start_paused = true)]
async fn ap_15_rules_that_change_while_a_call_waits_for_its_turn_count() {
    let (terminal, by, text, runs) = rules_change_while_waiting(Verdict::Deny).await;
    assert_eq!((terminal, by), (Terminal::Denied, Some(DeniedBy::Policy)));
    assert!(text.contains("the test says deny"), "{text}");
    assert_eq!(runs, 1);
    let (terminal, by, text, runs) = rules_change_while_waiting(Verdict::Ask).await;
    assert_eq!((terminal, by), (Terminal::Denied, Some(DeniedBy::Expired)));
    assert!(
        text.contains("the rules changed while the call waited"),
        "{text}"
    );
    assert_eq!(runs, 1);
    let (terminal, by, _, runs) = rules_change_while_waiting(Verdict::Allow).await;
    assert_eq!((terminal, by, runs), (Terminal::Succeeded, None, 2));
}

/// Two names of one file are one file.
#[tokio::test(start_paused = true)]
async fn locks_are_keyed_on_where_a_path_leads() {
    let (harness, _) = harness();
    harness.tree.put_symlink("link", "a");
    let requests = ["a", "link"]
        .map(|path| harness.request("step", json!({"name": path, "mode": "write", "path": path})));
    let started = Instant::now();
    harness.runtime.batch(requests.into()).await;
    assert_eq!(started.elapsed(), STEP * 2);
}

#[tokio::test(start_paused = true)]
async fn a_failing_call_never_stops_its_siblings() {
    let (harness, _) = harness();
    let requests = (0..5)
        .map(|n| {
            let (name, path) = (n.to_string(), format!("f{n}"));
            let arguments =
                json!({"name": name, "mode": "write", "path": path, "fail": n % 2 == 0});
            harness.request("step", arguments)
        })
        .collect();
    let outcomes = harness.runtime.batch(requests).await;
    let succeeded: Vec<bool> = outcomes.iter().map(|outcome| outcome.succeeded()).collect();
    assert_eq!(succeeded, [false, true, false, true, false]);
}

/// Mistake 1: progress kept on a shared tool object, so two calls show each other's.
#[tokio::test]
async fn mistake_01_progress_belongs_to_its_call() {
    let tool = Scripted::new("counting", |input: Value, cx| async move {
        let total = input["total"].as_u64().unwrap();
        for step in 0..=total {
            cx.report(haft_contract::Progress::of(
                step,
                Some(total),
                input["name"].to_string(),
            ));
            tokio::task::yield_now().await;
        }
        Ok(json!(null))
    });
    let harness = Harness::memory().tools(vec![tool.tool()]).build();
    let requests: Vec<_> = (1..=8)
        .map(|n| {
            harness.request(
                "counting",
                json!({"name": format!("n{n}"), "total": n * 10}),
            )
        })
        .collect();
    let calls: Vec<_> = requests.iter().map(|request| request.id).collect();
    harness.runtime.batch(requests).await;
    for (call, n) in calls.into_iter().zip(1_u64..) {
        let reports: Vec<_> = harness
            .events
            .of(call)
            .into_iter()
            .filter_map(|event| match event {
                haft_contract::CallEvent::Progress(progress) => Some(progress),
                _ => None,
            })
            .collect();
        assert!(!reports.is_empty());
        for progress in &reports {
            assert_eq!(progress.total, Some(n * 10));
            assert_eq!(progress.status, format!("\"n{n}\""));
        }
        assert_eq!(reports.last().unwrap().percentage(), Some(100));
    }
}
