//! A gateway that ends and starts again on the same record.

use serde_json::json;

use crate::served::{CAREFUL, Client, Served, until};

/// The question is answered on the next process, and the call of the first one has its outcome.
#[tokio::test]
async fn what_was_accepted_has_an_outcome_on_the_next_one() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let mut calls = Vec::new();
    for number in 0..5 {
        let path = format!("free/{number}.txt");
        let body =
            json!({"tool": "write", "arguments": {"path": path, "content": "x"}, "wait_ms": 0});
        calls.push(
            agent
                .post("/v1/calls", body)
                .await
                .is(202)
                .text("/call")
                .to_owned(),
        );
    }
    let served = served.again().await;
    let agent = Client {
        base: served.base(),
        ..agent
    };
    for call in calls {
        let ended = until(|| async {
            let found = agent.get(&format!("/v1/calls/{call}")).await;
            (found.is(200).text("/outcome") != "open").then_some(found)
        })
        .await;
        let outcome = ended.text("/outcome");
        assert!(["succeeded", "cancelled"].contains(&outcome), "{ended:?}");
    }
    served.close().await;
}

#[tokio::test]
async fn keys_and_repeated_requests_outlive_the_process() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let send = |agent: Client| async move {
        let body = json!({"tool": "write", "arguments": {"path": "free/n.txt", "content": "x"}});
        let request = agent
            .request(reqwest::Method::POST, "/v1/calls")
            .json(&body);
        crate::served::answer(request.header("idempotency-key", "once")).await
    };
    let first = send(agent.clone()).await;
    let served = served.again().await;
    let agent = Client {
        base: served.base(),
        ..agent
    };
    let again = send(agent.clone()).await;
    assert_eq!(again.is(200).body["call"], first.is(200).body["call"]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    served.close().await;
}
