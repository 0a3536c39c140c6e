//! The endpoint over HTTP: both eras on one path, and everybody who must stay out.

use std::{sync::Arc, time::Duration};

use haft_mcp::server::{MAX_MESSAGE_BYTES, SessionScope, http::MAX_SESSIONS};
use reqwest::header;
use serde_json::{Value, json};

use super::{
    Stage,
    web::{COME_BACK, TOKEN, Web, events},
    wire::PATIENCE,
};

/// A served endpoint and a client of it.
pub(crate) struct Served {
    pub(crate) stage: Stage,
    pub(crate) web: Web,
}

impl Served {
    pub(crate) async fn new() -> Self {
        let stage = Stage::with(|endpoint| endpoint, SessionScope::OfConnection);
        let web = Web::serve(Arc::clone(&stage.endpoint), stage.cancel.clone()).await;
        Self { stage, web }
    }
}

fn calls(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

#[tokio::test]
async fn a_request_that_stands_for_itself_is_answered_in_json() {
    let served = Served::new().await;
    let answer = served
        .web
        .modern("tools/call", calls("count", &json!({"to": 2})));
    let answer = answer.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/json");
    let answer: Value = answer.json().await.unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!({"counted": 2}));
    assert_eq!(answer["result"]["resultType"], "complete");
    let found = served.web.modern("server/discover", json!({}));
    let found: Value = found.send().await.unwrap().json().await.unwrap();
    assert_eq!(found["result"]["cacheScope"], "private", "{found}");
}

/// One more key of `_meta` has the SDK answer what is otherwise answered without it.
#[tokio::test]
async fn a_plain_call_is_answered_as_the_sdk_answers_it() {
    for (tool, arguments) in [
        ("count", json!({"to": 2})),
        ("count", json!({"to": "two"})),
        ("count", json!({})),
        ("no_such_tool", json!({})),
        ("no such tool", json!({})),
    ] {
        let served = Served::new().await;
        let mut answers = Vec::new();
        for meta in [json!({}), json!({"example.com/trace": "1"})] {
            let mut parameters = calls(tool, &arguments);
            parameters["_meta"] = meta;
            let answer = served.web.modern("tools/call", parameters).send().await;
            let answer = answer.unwrap();
            let status = answer.status();
            let headers = answer.headers();
            let kind = headers[header::CONTENT_TYPE].clone();
            let unbuffered = headers["x-accel-buffering"].clone();
            let mut body: Value = answer.json().await.unwrap();
            for own in ["/result/_meta", "/error/data", "/result/requestState"] {
                if let Some(own) = body.pointer_mut(own) {
                    own.take();
                }
            }
            answers.push((status, kind, unbuffered, body));
        }
        assert_eq!(answers[0], answers[1], "{tool} {arguments}");
    }
}

#[tokio::test]
async fn progress_turns_the_answer_into_a_stream() {
    let served = Served::new().await;
    let mut parameters = calls("count", &json!({"to": 4, "pause_ms": 60}));
    parameters["_meta"] = json!({"progressToken": 7});
    let answer = served
        .web
        .modern("tools/call", parameters)
        .send()
        .await
        .unwrap();
    let messages = events(answer).await;
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last["result"]["isError"], json!(false));
    assert!(before.len() >= 2, "{messages:?}");
    assert!(
        before
            .iter()
            .all(|it| it["params"]["progressToken"] == json!(7))
    );
}

#[tokio::test]
async fn a_session_is_served_beside_requests_that_stand_for_themselves() {
    let served = Served::new().await;
    let session = served.web.begin().await;
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": calls("count", &json!({"to": 2}))});
    let answer = served.web.in_session(&session, &body).send().await.unwrap();
    let messages = events(answer).await;
    let counted = &messages.last().unwrap()["result"]["structuredContent"];
    assert_eq!(counted, &json!({"counted": 2}));
    let unknown = served
        .web
        .in_session("no-such-session", &body)
        .send()
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
}

#[tokio::test]
async fn a_closed_stream_cancels_the_call_of_a_request_that_stands_for_itself() {
    let served = Served::new().await;
    let sleep = calls("sleep", &json!({"ms": 60_000}));
    let request = served.web.modern("tools/call", sleep);
    tokio::select! {
        answer = request.send() => panic!("it answers: {answer:?}"),
        () = served.stage.until_busy() => {}
    }
    served.stage.until_quiet().await;
    assert_eq!(served.stage.terminals(), ["cancelled"]);
}

#[tokio::test]
async fn the_end_of_a_session_cancels_its_calls() {
    let served = Served::new().await;
    let session = served.web.begin().await;
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": calls("sleep", &json!({"ms": 60_000}))});
    let waiting = served.web.in_session(&session, &body).send();
    let waiting = tokio::spawn(waiting);
    served.stage.until_busy().await;
    let end = async || {
        let delete = served.web.client.delete(served.web.url());
        let delete = delete.bearer_auth(TOKEN);
        let delete = delete.header("mcp-session-id", &session);
        delete.send().await.unwrap().status()
    };
    assert_eq!(end().await, 204);
    served.stage.until_quiet().await;
    assert_eq!(served.stage.terminals(), ["cancelled"]);
    waiting.abort();
    assert_eq!(end().await, 404, "it has ended");
}

#[tokio::test]
async fn a_client_with_a_session_that_does_not_come_back_is_gone() {
    let served = Served::new().await;
    let session = served.web.begin().await;
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": calls("sleep", &json!({"ms": 60_000}))});
    let lost = served.web.in_session(&session, &body).send().await.unwrap();
    served.stage.until_busy().await;
    let began = std::time::Instant::now();
    drop(lost);
    served.stage.until_quiet().await;
    assert!(began.elapsed() >= COME_BACK, "it may come back");
    assert_eq!(served.stage.terminals(), ["cancelled"]);
    // The session itself goes on.
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}});
    let listed = served.web.in_session(&session, &body).send().await.unwrap();
    assert!(events(listed).await.last().unwrap()["result"]["tools"].is_array());
}

#[tokio::test]
async fn every_answer_that_a_client_does_not_come_back_for_ends_its_call() {
    let served = Served::new().await;
    let session = served.web.begin().await;
    let mut lost = Vec::new();
    for id in [2, 3] {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": calls("sleep", &json!({"ms": 3_600_000}))});
        lost.push(served.web.in_session(&session, &body).send().await.unwrap());
    }
    while served.stage.calls.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(lost);
    served.stage.until_quiet().await;
    assert_eq!(served.stage.terminals(), ["cancelled", "cancelled"]);
}

#[tokio::test]
async fn so_many_sessions_are_open_and_no_more_whatever_the_headers_say() {
    let served = Served::new().await;
    // A body that begins a session, under the version that has none.
    let version = "2026-07-28";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    let begin = || {
        let request = served
            .web
            .post(&body)
            .header("mcp-protocol-version", version);
        async move { request.send().await.unwrap() }
    };
    for _ in 0..MAX_SESSIONS {
        let answer = begin().await;
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().contains_key("mcp-session-id"));
    }
    assert_eq!(begin().await.status(), 503);
    // Whoever needs none is served.
    let listed = served
        .web
        .modern("tools/list", json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(listed.status(), 200);
}

#[tokio::test]
async fn wb_03_mc_23_a_foreign_page_is_refused() {
    let served = Served::new().await;
    for origin in [
        "https://evil.test",
        "null",
        "http://localhost:3000",
        "file://",
    ] {
        let request = served
            .web
            .modern("tools/list", json!({}))
            .header(header::ORIGIN, origin);
        let refused = request.send().await.unwrap();
        assert_eq!(refused.status(), 403, "{origin}");
        let body = refused.text().await.unwrap();
        assert!(body.contains("--allow-origin"), "{body}");
    }
    // Whatever the method, also where a WebSocket is asked for.
    let url = served.web.url();
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        let request = served.web.client.request(method.parse().unwrap(), &url);
        let request = request
            .bearer_auth(TOKEN)
            .header(header::ORIGIN, "https://evil.test")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket");
        assert_eq!(request.send().await.unwrap().status(), 403, "{method}");
    }
    // A cookie proves nothing: without the token nobody gets in, page or no page.
    let cookie = served
        .web
        .client
        .post(&url)
        .header(header::COOKIE, format!("token={TOKEN}"));
    assert_eq!(cookie.send().await.unwrap().status(), 401);
    assert!(served.stage.terminals().is_empty());
}

#[tokio::test]
async fn wb_04_mc_23_a_rebound_name_is_refused() {
    let served = Served::new().await;
    for host in [
        "evil.test",
        "127.evil.com",
        "evil.test:80",
        "localhost.evil.test",
    ] {
        let request = served
            .web
            .modern("tools/list", json!({}))
            .header(header::HOST, host);
        let refused = request.send().await.unwrap();
        assert_eq!(refused.status(), 403, "{host}");
        let body = refused.text().await.unwrap();
        assert!(body.contains("--allow-host"), "{body}");
    }
}

#[tokio::test]
async fn without_the_token_nobody_gets_in_on_any_method() {
    let served = Served::new().await;
    let url = served.web.url();
    for method in ["GET", "POST", "DELETE", "OPTIONS"] {
        for token in [None, Some("Bearer wrong"), Some("Basic x")] {
            let method = method.parse().unwrap();
            let mut request = served.web.client.request(method, &url);
            if let Some(token) = token {
                request = request.header(header::AUTHORIZATION, token);
            }
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status(), 401);
            assert!(refused.headers()[header::WWW_AUTHENTICATE].to_str().is_ok());
            let body = refused.text().await.unwrap();
            assert!(body.contains("haft mcp token"), "{body}");
        }
    }
    assert!(served.stage.terminals().is_empty());
}

#[tokio::test]
async fn mc_22_headers_that_differ_from_the_body_are_refused() {
    let served = Served::new().await;
    let count = || calls("count", &json!({"to": 1}));
    for (name, value) in [
        ("mcp-method", "tools/list"),
        ("mcp-name", "append"),
        ("mcp-protocol-version", "2025-11-25"),
    ] {
        let mut request = served.web.modern("tools/call", count()).build().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        let refused = served.web.client.execute(request).await.unwrap();
        assert_eq!(refused.status(), 400, "{name}");
        let body: Value = refused.json().await.unwrap();
        assert_eq!(body["error"]["code"], json!(-32020), "{name}: {body}");
    }
    for name in ["mcp-method", "mcp-name"] {
        let mut request = served.web.modern("tools/call", count()).build().unwrap();
        request.headers_mut().remove(name);
        let refused = served.web.client.execute(request).await.unwrap();
        assert_eq!(refused.status(), 400, "without {name}");
    }
    // Nothing of it reached the runtime.
    assert!(served.stage.terminals().is_empty());
}

#[tokio::test]
async fn what_breaks_the_protocol_is_refused_with_its_code() {
    let served = Served::new().await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let unknown = json!({"_meta": {version: "2099-01-01"}});
    let unknown = served.web.modern("tools/list", unknown);
    let unknown = {
        let mut request = unknown.build().unwrap();
        let value = "2099-01-01".parse().unwrap();
        request.headers_mut().insert("mcp-protocol-version", value);
        served.web.client.execute(request).await.unwrap()
    };
    let no_method = served
        .web
        .modern("no/such", json!({}))
        .send()
        .await
        .unwrap();
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let no_meta = served
        .web
        .post(&bare)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/list");
    let no_meta = no_meta.send().await.unwrap();
    for (answer, status, code) in [
        (unknown, 400, -32022),
        (no_method, 404, -32601),
        (no_meta, 400, -32602),
    ] {
        assert_eq!(answer.status(), status);
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["code"], json!(code), "{body}");
    }
    let get = served.web.client.get(served.web.url());
    let get = get
        .bearer_auth(TOKEN)
        .header(header::ACCEPT, "text/event-stream")
        .header("mcp-protocol-version", "2026-07-28");
    assert_eq!(get.send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let served = Served::new().await;
    let large = json!({"x": "x".repeat(MAX_MESSAGE_BYTES + 1)});
    let refused = served.web.modern("tools/list", large).send().await;
    // The server may close before everything was sent.
    if let Ok(refused) = refused {
        assert_eq!(refused.status(), 413);
    }
    let listed = served
        .web
        .modern("tools/list", json!({}))
        .send()
        .await
        .unwrap();
    assert_eq!(listed.status(), 200);
}

#[tokio::test]
async fn there_is_one_path() {
    let served = Served::new().await;
    let url = format!(
        "http://{}/.well-known/oauth-protected-resource",
        served.web.address
    );
    let missing = served.web.client.get(url).send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert!(missing.text().await.unwrap().contains("/mcp"));
}

#[tokio::test]
async fn serving_ends_when_told_with_streams_open() {
    let served = Served::new().await;
    let session = served.web.begin().await;
    let stream = served
        .web
        .client
        .get(served.web.url())
        .bearer_auth(TOKEN)
        .header(header::ACCEPT, "text/event-stream")
        .header("mcp-session-id", &session)
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    served.stage.cancel.cancel();
    let rest = tokio::time::timeout(PATIENCE, stream.text()).await;
    assert!(rest.is_ok(), "the stream ends");
    let after = served.web.modern("tools/list", json!({})).send().await;
    assert!(after.is_err(), "nobody listens any more");
}
