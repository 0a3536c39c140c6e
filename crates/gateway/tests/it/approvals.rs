//! Questions over the API: read whole, answered once, by somebody who may.

use serde_json::{Value, json};

use crate::served::{Answer, CAREFUL, Client, Served, until};

/// A call that waits for an answer: its id and its question.
async fn asked(agent: &Client, admin: &Client, path: &str) -> (String, Answer) {
    let body = json!({
        "tool": "write",
        "arguments": {"path": path, "content": "hello\n"},
        "wait_ms": 0,
    });
    let accepted = agent.post("/v1/calls", body).await;
    let call = accepted.is(202).text("/call").to_owned();
    let question = until(|| async {
        let open = admin.get("/v1/approvals").await;
        let of_this = open.is(200).items().iter().find(|one| one["call"] == *call);
        of_this.map(|one| one["question"].as_str().unwrap().to_owned())
    })
    .await;
    let whole = admin.get(&format!("/v1/approvals/{question}")).await;
    whole.is(200);
    (call, whole)
}

async fn ended(client: &Client, call: &str) -> Answer {
    until(|| async {
        let found = client.get(&format!("/v1/calls/{call}")).await;
        (found.is(200).text("/outcome") != "open").then_some(found)
    })
    .await
}

async fn answer(client: &Client, question: &Answer, body: Value) -> Answer {
    let path = format!("/v1/approvals/{}/answer", question.text("/question"));
    client.post(&path, body).await
}

#[tokio::test]
async fn a_question_is_read_whole_and_answered_once() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let admin = served.admin("acme").await;
    let (call, question) = asked(&agent, &admin, "a.txt").await;
    let shown = question.body["shown"].as_array().unwrap();
    assert!(
        shown
            .iter()
            .any(|line| line.as_str().unwrap().contains("hello")),
        "{shown:?}"
    );
    let digest = question.text("/digest");

    let other = json!({"verdict": "approve", "digest": "0".repeat(64)});
    answer(&admin, &question, other).await.is(422);
    let own = json!({"verdict": "approve", "digest": digest});
    let refused = answer(&agent, &question, own.clone()).await;
    assert_eq!(refused.is(403).text("/denied_by"), "scope", "no scope");
    let same = served.client("acme", "writer", &["call", "approve"]).await;
    answer(&same, &question, own.clone()).await.is(403);
    assert_eq!(served.file("acme/a.txt"), None);

    let yes = answer(&admin, &question, own.clone()).await;

    assert!(["approved", "used"].contains(&yes.is(200).text("/state")));
    assert_eq!(ended(&agent, &call).await.text("/outcome"), "succeeded");
    assert_eq!(served.file("acme/a.txt").as_deref(), Some("hello\n"));
    assert_eq!(
        answer(&admin, &question, own).await.is(409).problem(),
        "not-open"
    );
    served.close().await;
}

#[tokio::test]
async fn a_refusal_tells_the_agent_why() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let admin = served.admin("acme").await;
    let (call, question) = asked(&agent, &admin, "a.txt").await;
    let digest = question.text("/digest");

    let no = json!({"verdict": "refuse", "digest": digest, "reason": "not on a Friday"});
    assert_eq!(
        answer(&admin, &question, no).await.is(200).text("/state"),
        "refused"
    );

    let ended = ended(&agent, &call).await;
    assert_eq!(ended.text("/outcome"), "denied");
    assert_eq!(ended.text("/result/facts/denied_by"), "person");
    assert!(
        ended
            .text("/result/error/message")
            .contains("not on a Friday"),
        "{ended:?}"
    );
    assert_eq!(served.file("acme/a.txt"), None);
    served.close().await;
}

/// Only a rule that was proposed is kept, it holds for the next call, and ends when somebody ends it.
#[tokio::test]
async fn always_keeps_a_rule_that_was_proposed_and_no_other() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let admin = served.admin("acme").await;
    let (call, question) = asked(&agent, &admin, "a.txt").await;
    let digest = question.text("/digest");
    let always = |rules: Value| {
        json!({
            "verdict": "approve",
            "digest": digest,
            "always": {"rules": rules, "scope": "project", "for_ms": 600_000},
        })
    };
    let wide = answer(&admin, &question, always(json!(["write", "bash"]))).await;
    assert_eq!(wide.is(422).problem(), "unprocessable");
    let proposed = question.body["proposals"][0]["rules"].clone();
    assert!(proposed.is_array(), "{question:?}");

    let kept = answer(&admin, &question, always(proposed)).await;

    assert_eq!(kept.is(200).body["grants"].as_array().unwrap().len(), 1);
    ended(&agent, &call).await;
    let again = json!({"path": "a.txt", "content": "hello\n"});
    assert_eq!(
        agent.call("write", again).await.is(200).text("/state"),
        "succeeded"
    );
    let grants = admin.get("/v1/grants").await;
    let grant = grants.is(200).items()[0]["grant"]
        .as_str()
        .unwrap()
        .to_owned();
    agent.delete(&format!("/v1/grants/{grant}")).await.is(403);
    admin.delete(&format!("/v1/grants/{grant}")).await.is(204);
    admin.delete(&format!("/v1/grants/{grant}")).await.is(404);
    assert!(admin.get("/v1/grants").await.items().is_empty());
    served.close().await;
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_refused() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let admin = served.admin("acme").await;
    let (_, question) = asked(&agent, &admin, "a.txt").await;
    let digest = question.text("/digest");
    for odd in [
        json!({}),
        json!({"verdict": "yes", "digest": digest}),
        json!({"verdict": "approve", "digest": "abc"}),
        json!({"verdict": "approve", "digest": digest, "reason": "x"}),
        json!({"verdict": "refuse", "digest": digest, "reason": "x".repeat(2_001)}),
        json!({"verdict": "refuse", "digest": digest, "always": {"rules": ["write"], "scope": "session"}}),
        json!({"verdict": "approve", "digest": digest, "more": 1}),
    ] {
        assert_eq!(
            answer(&admin, &question, odd.clone())
                .await
                .is(400)
                .problem(),
            "bad-request",
            "{odd}"
        );
    }
    assert_eq!(
        admin.get("/v1/approvals").await.items().len(),
        1,
        "it is still open"
    );
    served.close().await;
}
