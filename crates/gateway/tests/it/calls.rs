//! Making calls, looking them up, listing them, and repeating a request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::served::{CAREFUL, Served, answer, until};

#[tokio::test]
async fn a_call_is_made_and_looked_up() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;

    let read = agent.call("read", json!({"path": "notes.txt"})).await;

    read.is(200);
    assert_eq!(read.text("/state"), "succeeded");
    assert!(read.text("/result/content/0/text").contains("this is acme"));
    let id = read.text("/call");
    let found = agent.get(&format!("/v1/calls/{id}")).await;
    found.is(200);
    assert_eq!(found.text("/tool"), "builtin/read");
    assert_eq!(found.text("/agent"), "writer");
    assert_eq!(found.text("/result/outcome"), "succeeded");
    assert_eq!(
        found.body["result"]["content"],
        read.body["result"]["content"]
    );
    let output = agent.get(&format!("/v1/calls/{id}/output")).await;
    assert!(output.is(200).text("/text").contains("this is acme"));
    let listed = agent.get("/v1/calls?tool=read").await;
    assert_eq!(listed.is(200).items()[0]["call"], id);
    served.close().await;
}

#[tokio::test]
async fn a_denial_is_an_outcome_that_says_what_refused_it() {
    let served = Served::open("[policy]\npreset = \"locked\"\n").await;
    let agent = served.client("acme", "writer", &["call"]).await;

    let denied = agent
        .call("write", json!({"path": "a.txt", "content": ""}))
        .await;

    assert_eq!(denied.is(200).text("/state"), "denied");
    assert_eq!(denied.text("/result/facts/denied_by"), "policy");
    assert_eq!(denied.text("/result/facts/decision/verdict"), "deny");
    let odd = agent.call("raed", json!({})).await;
    assert_eq!(odd.is(200).text("/state"), "failed");
    assert_eq!(odd.text("/result/error/kind"), "unknown_tool");
    served.close().await;
}

#[tokio::test]
async fn a_call_that_is_not_waited_for_goes_on() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let body = json!({
        "tool": "write",
        "arguments": {"path": "free/a.txt", "content": "hello"},
        "wait_ms": 0,
    });

    let accepted = agent.post("/v1/calls", body).await;

    accepted.is(202);
    let id = accepted.text("/call").to_owned();
    assert_eq!(accepted.headers["location"], *format!("/v1/calls/{id}"));
    let ended = until(|| async {
        let found = agent.get(&format!("/v1/calls/{id}")).await;
        (found.status == 200 && found.text("/outcome") != "open").then_some(found)
    })
    .await;
    assert_eq!(ended.text("/outcome"), "succeeded");
    assert_eq!(served.file("acme/free/a.txt").as_deref(), Some("hello"));
    served.close().await;
}

/// The same key is the same call: with the same body it is told, with another it is refused.
#[tokio::test]
async fn a_repeated_request_is_the_same_call() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let send = |content: &'static str, key: &'static str| {
        let body =
            json!({"tool": "write", "arguments": {"path": "free/n.txt", "content": content}});
        let request = agent.request(Method::POST, "/v1/calls").json(&body);
        answer(request.header("idempotency-key", key))
    };

    let first = send("one", "k-1").await;
    assert_eq!(first.is(200).text("/state"), "succeeded");
    assert!(first.headers.get("idempotency-replayed").is_none());
    let again = send("one", "k-1").await;
    assert_eq!(again.is(200).body, first.body);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(
        send("two", "k-1").await.is(422).problem(),
        "idempotency-key-reused"
    );
    assert_ne!(
        send("one", "k-2").await.is(200).body["call"],
        first.body["call"]
    );

    let other = served.client("acme", "other", &["call"]).await;
    let body = json!({"tool": "write", "arguments": {"path": "free/n.txt", "content": "x"}});
    let request = other.request(Method::POST, "/v1/calls").json(&body);
    let theirs = answer(request.header("idempotency-key", "k-1")).await;
    assert_ne!(
        theirs.is(200).body["call"],
        first.body["call"],
        "another credential"
    );

    let listed = agent.get("/v1/calls?tool=write").await;
    assert_eq!(listed.items().len(), 2, "{listed:?}");
    served.close().await;
}

#[tokio::test]
async fn many_repeats_at_once_are_one_call() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let sent = (0..16).map(|_| {
        let body = json!({"tool": "write", "arguments": {"path": "free/n.txt", "content": "x"}});
        let request = agent.request(Method::POST, "/v1/calls").json(&body);
        tokio::spawn(answer(request.header("idempotency-key", "storm")))
    });
    let sent: Vec<_> = sent.collect();
    let mut ids = std::collections::BTreeSet::new();
    for sent in sent {
        let answered = sent.await.unwrap();
        match answered.status.as_u16() {
            200 => drop(ids.insert(answered.text("/call").to_owned())),
            409 => assert_eq!(answered.problem(), "in-flight"),
            other => panic!("{other}: {answered:?}"),
        }
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
    let listed = agent.get("/v1/calls").await;
    assert_eq!(listed.items().len(), 1);
    served.close().await;
}

#[tokio::test]
async fn pages_have_every_call_once_newest_first() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let mut made = Vec::new();
    for number in 0..7 {
        // Each another one: a session that repeats itself is asked about.
        let call = agent
            .call("find", json!({"pattern": format!("*{number}")}))
            .await;
        made.push(call.is(200).text("/call").to_owned());
    }
    made.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = agent.get(&format!("/v1/calls?limit=3{cursor}")).await;
        let ids = page.is(200).items().iter().map(|call| call["call"].clone());
        seen.extend(ids.map(|id| id.as_str().unwrap().to_owned()));
        match page.body["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    for odd in [
        "limit=0",
        "limit=201",
        "cursor=x",
        "outcome=odd",
        "since=now",
    ] {
        let refused = agent.get(&format!("/v1/calls?{odd}")).await;
        assert_eq!(refused.is(400).problem(), "bad-request", "{odd}");
    }
    served.close().await;
}

#[tokio::test]
async fn a_plan_runs_and_records_nothing() {
    let served = Served::open(CAREFUL).await;
    let admin = served.admin("acme").await;
    let body = json!({"tool": "write", "arguments": {"path": "a.txt", "content": "x"}});

    let plan = admin.post("/v1/plans", body.clone()).await;

    assert_eq!(plan.is(200).text("/verdict"), "ask");
    assert_eq!(plan.text("/plan/accesses/0/kind"), "write");
    let explained = admin.post("/v1/policy/check", body).await;
    assert_eq!(explained.is(200).text("/decision/verdict"), "ask");
    assert!(!explained.body["steps"].as_array().unwrap().is_empty());
    assert_eq!(served.file("acme/a.txt"), None);
    assert_eq!(admin.get("/v1/calls").await.items(), &[] as &[Value]);
    served.close().await;
}

#[tokio::test]
async fn a_call_is_stopped_and_taken_back() {
    let served =
        Served::open("[policy]\npreset = \"careful\"\nallow = [\"write(free/**)\", \"undo\"]\n")
            .await;
    let admin = served.admin("acme").await;
    let body =
        json!({"tool": "write", "arguments": {"path": "b.txt", "content": "x"}, "wait_ms": 0});
    let accepted = admin.post("/v1/calls", body).await;
    let id = accepted.is(202).text("/call").to_owned();
    until(|| async {
        let open = admin.get("/v1/approvals").await;
        (!open.items().is_empty()).then_some(())
    })
    .await;

    admin
        .post(&format!("/v1/calls/{id}/cancel"), json!({}))
        .await
        .is(202);

    let ended = until(|| async {
        let found = admin.get(&format!("/v1/calls/{id}")).await;
        (found.text("/outcome") != "open").then_some(found)
    })
    .await;
    assert_eq!(ended.text("/outcome"), "cancelled");
    let written = admin
        .call("write", json!({"path": "free/c.txt", "content": "x"}))
        .await;
    let id = written.is(200).text("/call").to_owned();
    assert!(served.file("acme/free/c.txt").is_some());
    let undone = admin.post(&format!("/v1/calls/{id}/undo"), json!({})).await;
    assert_eq!(undone.is(200).body["complete"], true, "{undone:?}");
    assert_eq!(served.file("acme/free/c.txt"), None);
    served.close().await;
}
