//! The outbound budget (SS-22): a session that has read what outsiders write sends only so much of its
//! own making to hosts before a person is asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_contract::{
    Access, BoxFuture, Effects, Outcome, Terminal, WorkPath,
    access::{Command, CommandAccess},
    egress::Host,
    host::Verdict,
    ops::{Fetch, FetchResponse, NetOps, NetStream, OpsError, WebScheme},
    outcome::DeniedBy,
};
use haft_runtime::{Limits, LoopGuard, OUTGOING_BUDGET};
use haft_testkit::{
    Harness, ScriptedApprover, approver::ScriptedAnswer, harness::HarnessBuilder, memory,
    principal::in_session,
};
use serde_json::{Value, json};

use crate::scripted::Scripted;

const MOST: u64 = 200;

/// Answers every request with the next of these pages.
struct Pages(Mutex<VecDeque<String>>);

impl NetOps for Pages {
    fn connect<'a>(
        &'a self,
        _: &'a Host,
        _: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        panic!("nothing connects")
    }

    fn fetch<'a>(&'a self, _: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        let page = self.0.lock().unwrap().pop_front().unwrap_or_default();
        let fetched = FetchResponse {
            status: 200,
            headers: Vec::new(),
            body: page.into_bytes(),
            kept: None,
        };
        Box::pin(async { Ok(fetched) })
    }
}

fn docs() -> Vec<Access> {
    vec![Access::Host {
        host: "docs.example".to_owned(),
        port: 443,
    }]
}

/// `get` fetches a page, and `run` is a command that may reach the same host.
fn harness(pages: &[&str]) -> HarnessBuilder {
    let get = Scripted::new("get", |_, cx| async move {
        let host = Host::parse("docs.example").unwrap();
        let request = Fetch {
            method: "GET",
            scheme: WebScheme::Tls,
            host: &host,
            port: 443,
            target: "/",
            headers: &[],
            body: &[],
            max_bytes: 1_000,
            within: Duration::from_secs(1),
            keep: false,
        };
        let fetched = cx.net().fetch(request).await?;
        Ok(json!(String::from_utf8(fetched.body).unwrap()))
    });
    let get = get.accesses(|_| docs()).effects(Effects {
        open_world: true,
        ..Effects::READ_ONLY
    });
    let run = Scripted::echo("run").accesses(|_| {
        let mut accesses = docs();
        accesses.push(Access::Command(CommandAccess {
            command: Command::Shell("curl https://docs.example".to_owned()),
            cwd: WorkPath::root(),
            stays: false,
        }));
        accesses
    });
    let (mut operations, _) = memory::operations();
    let pages = pages.iter().map(|page| (*page).to_owned()).collect();
    operations.world.net = Arc::new(Pages(Mutex::new(pages)));
    let limits = Limits {
        outgoing_bytes: MOST,
        ..Limits::default()
    };
    let harness = Harness::on(operations).configure(|builder| builder.loop_guard(LoopGuard::OFF));
    harness
        .limits(limits)
        .tools(vec![get.tool(), run.tool(), Scripted::echo("echo").tool()])
}

/// An address that weighs its bytes, of which there are this many.
fn address(bytes: usize) -> Value {
    let start = "https://docs.example/";
    json!({"url": format!("{start}{}", "a-b.".repeat(bytes)[..bytes - start.len()].to_owned())})
}

fn was_asked(outcome: &Arc<Outcome>) -> bool {
    let decision = outcome.facts.decision.as_ref().unwrap();
    let rule = decision.rule.as_ref();
    let by_budget = rule.is_some_and(|rule| rule.source == OUTGOING_BUDGET);
    assert_eq!(by_budget, decision.verdict == Verdict::Ask, "{decision:?}");
    by_budget
}

#[tokio::test]
async fn ss_22_what_a_session_composes_after_reading_is_counted_and_then_asked_about() {
    let harness = harness(&[]).build();
    // Nothing was read yet, so nobody can have told it to.
    assert!(!was_asked(&harness.succeed("get", address(1_000)).await));
    for _ in 0..2 {
        assert!(!was_asked(&harness.succeed("get", address(100)).await));
    }
    // What is foreseen uses nothing up, and what is refused neither.
    for _ in 0..2 {
        let refused = harness.fail("get", address(22)).await;
        assert!(was_asked(&refused));
        assert_eq!(refused.facts.denied_by, Some(DeniedBy::NobodyToAsk));
        assert_eq!(refused.terminal, Terminal::Denied);
        let text = refused.model_text();
        let why = "since it read from web:docs.example, this session has put 222 bytes of its own into \
                   requests to hosts, and 200 pass without a question";
        assert!(text.contains(why), "{text}");
    }
    // Other calls, and commands, are not what it counts.
    harness.succeed("echo", address(1_000)).await;
    harness.succeed("run", address(1_000)).await;
}

#[tokio::test]
async fn ss_22_data_weighs_more_than_words() {
    let harness = harness(&[]).build();
    harness.succeed("get", address(22)).await;
    let data = json!({"url": "https://docs.example/5f4dcc3b5aa765d61d8327deb882cf99"});
    assert!(was_asked(&harness.fail("get", data).await));
    let words = json!({"url": "https://docs.example/how-to-wait-for-a-child-process"});
    assert!(!was_asked(&harness.succeed("get", words).await));
}

#[tokio::test]
async fn an_address_that_was_shown_is_not_its_own() {
    let long = format!("https://docs.example/{}", "part/".repeat(50));
    let page = format!("Read on at [the next page]({long}#top).");
    let harness = harness(&[&page]).build();
    let url = json!({ "url": long });
    harness.succeed("get", address(22)).await;
    for _ in 0..50 {
        assert!(!was_asked(&harness.succeed("get", url.clone()).await));
    }
    let more = json!({ "url": format!("{long}x") });
    assert!(was_asked(&harness.fail("get", more).await));
}

#[tokio::test]
async fn a_yes_lets_a_request_pass_and_the_count_begins_anew() {
    let person = ScriptedApprover::new([
        ScriptedAnswer::Refuse("what for?".into()),
        ScriptedAnswer::Approve,
    ]);
    let harness = harness(&[]).person(&person).build();
    harness.succeed("get", address(22)).await;
    harness.succeed("get", address(150)).await;
    let refused = harness.fail("get", address(100)).await;
    assert_eq!(refused.facts.denied_by, Some(DeniedBy::Person));
    assert!(was_asked(&harness.succeed("get", address(100)).await));
    assert!(!was_asked(&harness.succeed("get", address(100)).await));
    assert!(was_asked(&harness.fail("get", address(22)).await));
    assert_eq!(person.asked().len(), 3);
}

#[tokio::test]
async fn sessions_are_counted_each_by_itself_and_calls_at_once_together() {
    let harness = harness(&[]).build();
    harness.succeed("get", address(22)).await;
    let many = (0..20).map(|_| harness.call("get", address(50)));
    let outcomes = futures_util::future::join_all(many).await;
    let passed = outcomes.iter().filter(|outcome| !was_asked(outcome));
    assert_eq!(passed.count(), 4);
    let mut request = harness.request("get", address(1_000));
    request.principal = in_session("another");
    let other = harness.runtime.call(request).await;
    assert_eq!(other.terminal, Terminal::Succeeded, "{other:?}");
}
