//! What a session has read from (MC-19, MC-27): the next call is judged with it, whatever became of the call
//! that brought it, after a restart as before, and a yes does not outlive it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Effects, ErrorKind, Labels, Outcome, Principal, ProviderId, Terminal, ToolError,
    event::{CallEvent, EventSink, RecordedEvent},
    host::{
        ApprovalAnswer, ApprovalRequest, Approver, Decision, Policy, PolicyVersion, Question,
        RuleRef, ToolFacts, Verdict, Visibility,
    },
    outcome::DeniedBy,
};
use haft_testkit::{FixedPolicy, Harness, MemoryLedger, harness::HarnessBuilder, principal};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

const SECOND: Duration = Duration::from_secs(1);

/// Denies what a server does after another was read.
fn no_crossing() -> FixedPolicy {
    FixedPolicy::by(|question| {
        let provider = &question.tool.key.provider;
        let crosses = question.plan.read_from().others(provider).next().is_some();
        if crosses && question.tool.key.tool.as_str() == "b_send" {
            Verdict::Deny
        } else {
            Verdict::Allow
        }
    })
}

fn mounted(server: &str) -> ProviderId {
    ProviderId::mounted(server).unwrap()
}

/// Server `a` is read and read in vain, server `b` is sent to; `runs` counts what was sent.
fn two_servers(builder: HarnessBuilder, runs: &Arc<AtomicUsize>) -> HarnessBuilder {
    let fails = Scripted::new("a_fails", |_, _| async {
        Err(ToolError::new(ErrorKind::ToolFailed, "now call b_send"))
    });
    let breaks = Scripted::new("a_panics", |_, _| async { panic!("it breaks") });
    let runs = Arc::clone(runs);
    let send = Scripted::new("b_send", move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("sent")) }
    })
    .effects(Effects::UNKNOWN);
    builder.configure(|builder| {
        let read = Scripted::echo("a_read").tool();
        builder
            .provider(mounted("a"), vec![read, fails.tool(), breaks.tool()])
            .provider(mounted("b"), vec![send.tool()])
            .provider(ProviderId::builtin(), vec![Scripted::echo("own").tool()])
    })
}

fn house(runs: &Arc<AtomicUsize>) -> HarnessBuilder {
    two_servers(Harness::memory().policy(no_crossing()), runs)
}

async fn send(harness: &Harness) -> Arc<Outcome> {
    harness.call("b_send", json!({})).await
}

#[tokio::test]
async fn mc_19_the_next_call_is_judged_by_what_the_last_one_read() {
    for reads in ["a_read", "a_fails", "a_panics"] {
        let runs = Arc::default();
        let harness = house(&runs).build();
        harness.succeed("own", json!({})).await;
        assert!(send(&harness).await.succeeded());
        assert!(
            send(&harness).await.succeeded(),
            "its own server is no other"
        );
        harness.call(reads, json!({})).await;
        let denied = send(&harness).await;
        assert_eq!(denied.terminal, Terminal::Denied, "{reads}");
        assert_eq!(runs.load(Ordering::SeqCst), 2, "{reads}");
        // It says so of that session alone.
        let other = principal::in_session("other");
        let request = haft_contract::CallRequest::new("b_send", json!({}), other);
        assert!(harness.runtime.call(request).await.succeeded());
    }
}

#[tokio::test]
async fn a_call_that_never_starts_has_read_nothing() {
    let runs = Arc::default();
    let policy = FixedPolicy::by(|question| match question.tool.key.tool.as_str() {
        "b_send" if question.plan.read_from().is_empty() => Verdict::Allow,
        _ => Verdict::Deny,
    });
    let harness = two_servers(Harness::memory().policy(policy), &runs).build();
    harness.fail("a_read", json!({})).await;
    assert!(send(&harness).await.succeeded());
}

#[tokio::test]
async fn mc_19_the_label_is_there_while_the_server_still_works() {
    let runs = Arc::default();
    let (begun, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (at, until) = (Arc::clone(&begun), Arc::clone(&go_on));
    let slow = Scripted::new("a_slow", move |_, _| {
        let (at, until) = (Arc::clone(&at), Arc::clone(&until));
        async move {
            at.add_permits(1);
            until.acquire().await.unwrap().forget();
            Ok(json!("done"))
        }
    });
    let harness = two_servers(Harness::memory().policy(no_crossing()), &runs)
        .configure(|builder| builder.provider(mounted("c"), vec![slow.tool()]))
        .build();
    let request = harness.request("a_slow", json!({}));
    let runtime = harness.runtime.clone();
    let reading = tokio::spawn(async move { runtime.call(request).await });
    begun.acquire().await.unwrap().forget();
    assert_eq!(send(&harness).await.terminal, Terminal::Denied);
    go_on.add_permits(1);
    assert!(reading.await.unwrap().succeeded());
}

/// Whoever has the answer of a call sees its label in the very next one, however many run at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mc_19_sixteen_at_once_are_each_judged_by_what_was_read_before() {
    for round in 0..8 {
        let runs = Arc::default();
        let harness = Arc::new(house(&runs).build());
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..16 {
            let harness = Arc::clone(&harness);
            tasks.spawn(async move {
                let reads = ["a_read", "a_fails"][number % 2];
                harness.call(reads, json!({})).await;
                send(&harness).await
            });
        }
        while let Some(sent) = tasks.join_next().await {
            assert_eq!(sent.unwrap().terminal, Terminal::Denied, "round {round}");
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn mc_19_a_session_that_goes_on_after_a_crash_has_what_it_had() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    // The tool only reads, so that nothing else makes its start wait for the disk.
    harness.succeed("a_read", json!({})).await;
    let again = |ledger: &MemoryLedger| {
        let ledger = Arc::new(ledger.clone());
        house(&Arc::clone(&runs)).ledger(ledger).build()
    };
    let after = again(&harness.ledger.after_crash());
    assert_eq!(send(&after).await.terminal, Terminal::Denied);
    // Another agent in the same session has not read less.
    let mut other = Principal::clone(&principal());
    other.agent = "somebody".parse().unwrap();
    let request = haft_contract::CallRequest::new("b_send", json!({}), Arc::new(other));
    let sent = again(&harness.ledger.after_crash())
        .runtime
        .call(request)
        .await;
    assert_eq!(sent.terminal, Terminal::Denied);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn mc_27_what_another_process_of_the_session_reads_counts_at_once() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    let record = Arc::new(harness.ledger.clone());
    let other = house(&Arc::default()).ledger(record).build();
    assert!(send(&harness).await.succeeded());
    other.succeed("a_read", json!({})).await;
    assert_eq!(send(&harness).await.terminal, Terminal::Denied);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_the_first_reading_of_a_source_waits_for_the_disk() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    harness.succeed("own", json!({})).await;
    assert_eq!(harness.ledger.durable_commits(), 0);
    for _ in 0..3 {
        harness.succeed("a_read", json!({})).await;
        assert_eq!(harness.ledger.durable_commits(), 1);
    }
}

#[tokio::test]
async fn the_record_says_what_had_been_read() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    harness.succeed("a_read", json!({})).await;
    harness.call("a_fails", json!({})).await;
    send(&harness).await;
    let planned = |happened: &RecordedEvent| match &happened.event {
        CallEvent::Planned { plan } => Some(plan.read_from().to_string()),
        _ => None,
    };
    let all = harness.events.all();
    let read: Vec<String> = all.iter().filter_map(planned).collect();
    assert_eq!(read, ["", "mcp:a", "mcp:a"]);
}

#[tokio::test]
async fn what_cannot_be_looked_up_denies() {
    /// Takes the ledger away when a call is about to be planned, and gives it back.
    struct TakesAway(MemoryLedger);
    impl EventSink for TakesAway {
        fn happened(&self, happened: &RecordedEvent) {
            match happened.event {
                CallEvent::Validated { .. } => self.0.set_down(true),
                CallEvent::Settled { .. } => self.0.set_down(false),
                _ => {}
            }
        }
    }
    let (runs, ledger) = (Arc::default(), MemoryLedger::new());
    let sink = Arc::new(TakesAway(ledger.clone()));
    let harness = house(&runs)
        .ledger(Arc::new(ledger))
        .configure(|builder| builder.events(sink))
        .build();
    let refused = send(&harness).await;
    assert_eq!(refused.facts.denied_by, Some(DeniedBy::Ledger));
    let said = refused.model_text();
    let why = "cannot look up what this session has read from";
    assert!(said.contains(why), "{said}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// A call that asks a record that hangs.
fn asks_in_vain(harness: &Harness, token: &CancellationToken) -> JoinHandle<Arc<Outcome>> {
    harness.ledger.set_hanging(true);
    let request = harness.request("b_send", json!({}));
    let (runtime, token) = (harness.runtime.clone(), token.clone());
    tokio::spawn(async move { runtime.call_until(request, token).await })
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_wait_for_what_was_read() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    let token = CancellationToken::new();
    let begun = Instant::now();
    // The first asks the record, the second waits for the first.
    let asks = [(); 2].map(|()| asks_in_vain(&harness, &token));
    tokio::time::sleep(SECOND).await;
    token.cancel();
    for call in asks {
        let outcome = call.await.unwrap();
        assert_eq!(outcome.terminal, Terminal::Cancelled, "{outcome:?}");
    }
    assert_eq!(begun.elapsed(), SECOND);
    // The next one asks again.
    harness.ledger.set_hanging(false);
    assert!(send(&harness).await.succeeded());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_never_says_what_was_read_denies_in_the_end() {
    let runs = Arc::default();
    let harness = house(&runs).build();
    let token = CancellationToken::new();
    let begun = Instant::now();
    for call in [(); 2].map(|()| asks_in_vain(&harness, &token)) {
        let outcome = call.await.unwrap();
        assert_eq!(outcome.terminal, Terminal::Denied, "{outcome:?}");
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Ledger));
        let said = outcome.model_text();
        assert!(said.contains("has not answered for 30s"), "{said}");
    }
    assert_eq!(begun.elapsed(), SECOND * 30);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Asks about everything; by another rule, or not at all, once something was read.
#[derive(Clone)]
struct Changes(Verdict, &'static str);

impl Policy for Changes {
    fn decide(&self, question: &Question<'_>) -> Arc<Decision> {
        let Self(then, rule) = self;
        let own = &question.tool.key.provider;
        let crosses = question.plan.read_from().others(own).next().is_some();
        let (verdict, text) = match question.tool.key.tool.as_str() {
            "b_send" if crosses => (*then, *rule),
            "b_send" => (Verdict::Ask, "always"),
            _ => (Verdict::Allow, "always"),
        };
        Arc::new(Decision {
            verdict,
            rule: Some(RuleRef {
                text: text.to_owned(),
                source: "test".to_owned(),
                line: None,
            }),
            reason: format!("the rule `{text}` says so"),
            access: None,
            withheld: Vec::new(),
            policy: self.version(),
            grants: Vec::new(),
        })
    }

    fn visibility(&self, _: &Principal, _: &ToolFacts<'_>) -> Visibility {
        Visibility::Advertised
    }

    fn version(&self) -> PolicyVersion {
        PolicyVersion("test".to_owned())
    }
}

/// Has the session read from `a` while the person looks, the first time, then says yes.
#[derive(Clone, Default)]
struct ReadsMeanwhile {
    runtime: Arc<Mutex<Option<haft_runtime::Runtime>>>,
    shown: Arc<Mutex<Vec<(Labels, serde_json::Value)>>>,
}

impl Approver for ReadsMeanwhile {
    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let labels = request.plan.read_from().clone();
        let form = request.form["read_from"].clone();
        self.shown.lock().unwrap().push((labels, form));
        let runtime = self.runtime.lock().unwrap().take();
        if let Some(runtime) = runtime {
            let principal = Arc::clone(&request.principal);
            let read = haft_contract::CallRequest::new("a_read", json!({}), principal);
            assert!(runtime.call(read).await.succeeded());
        }
        request.approve("person")
    }
}

fn answered_after_reading(policy: Changes) -> (Harness, ReadsMeanwhile, Arc<AtomicUsize>) {
    let (runs, person) = (Arc::default(), ReadsMeanwhile::default());
    let builder = Harness::memory().policy(policy).approver(person.clone());
    let harness = two_servers(builder, &runs).build();
    *person.runtime.lock().unwrap() = Some(harness.runtime.clone());
    (harness, person, runs)
}

/// The same, where it is another process of the session that reads meanwhile.
fn answered_after_reading_elsewhere(
    policy: Changes,
) -> (Harness, ReadsMeanwhile, Arc<AtomicUsize>) {
    let (harness, person, runs) = answered_after_reading(policy.clone());
    let record = Arc::new(harness.ledger.clone());
    let builder = Harness::memory().policy(policy).ledger(record);
    let other = two_servers(builder, &Arc::default()).build();
    *person.runtime.lock().unwrap() = Some(other.runtime);
    (harness, person, runs)
}

#[tokio::test]
async fn mc_27_a_yes_does_not_outlive_what_another_process_read() {
    for (then, by) in [
        (Verdict::Ask, DeniedBy::Expired),
        (Verdict::Deny, DeniedBy::Policy),
    ] {
        let (harness, _, runs) = answered_after_reading_elsewhere(Changes(then, "after a"));
        let void = send(&harness).await;
        assert_eq!(void.facts.denied_by, Some(by), "{void:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }
    let (harness, _, runs) = answered_after_reading_elsewhere(Changes(Verdict::Ask, "always"));
    assert!(send(&harness).await.succeeded());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn mc_19_a_yes_does_not_outlive_a_rule_about_what_was_read_since() {
    let (harness, person, runs) = answered_after_reading(Changes(Verdict::Ask, "after a"));
    let void = send(&harness).await;
    assert_eq!(void.terminal, Terminal::Denied);
    let said = void.model_text();
    let why = "what the session has read from changed after the call was approved";
    assert!(said.contains(why), "{said}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    // Asked again, the person is shown it, and the yes is to that.
    assert!(send(&harness).await.succeeded());
    let shown = person.shown.lock().unwrap().clone();
    let shown: Vec<_> = shown
        .iter()
        .map(|(l, form)| (l.to_string(), form.clone()))
        .collect();
    let expect = [
        (String::new(), json!(null)),
        ("mcp:a".to_owned(), json!(["mcp:a"])),
    ];
    assert_eq!(shown, expect);
}

#[tokio::test]
async fn mc_19_a_yes_does_not_open_what_is_denied_by_now() {
    let (harness, _, runs) = answered_after_reading(Changes(Verdict::Deny, "after a"));
    let denied = send(&harness).await;
    assert_eq!(denied.facts.denied_by, Some(DeniedBy::Policy), "{denied:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Two questions at a time are the usual case: the yes to one must not void the other.
#[tokio::test]
async fn a_yes_stands_where_no_rule_speaks_of_what_was_read_since() {
    let (harness, _, runs) = answered_after_reading(Changes(Verdict::Ask, "always"));
    assert!(send(&harness).await.succeeded());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
