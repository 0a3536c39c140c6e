//! What nobody who means well sends: bodies that are too large or no JSON, headers without end, requests
//! that never finish, paths that lead nowhere. Each is refused in words, and the next request is answered.

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::served::{CAREFUL, Client, PATIENCE, Served, answer};

async fn post_text(
    client: &Client,
    media: &str,
    body: impl Into<reqwest::Body>,
) -> crate::served::Answer {
    let request = client.request(Method::POST, "/v1/calls").body(body);
    answer(request.header("content-type", media)).await
}

#[tokio::test]
async fn bodies_that_cannot_be_are_refused_in_words() {
    let served = Served::open(&format!("{CAREFUL}[serve]\nbody_bytes = 10000\n")).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let large = json!({"tool": "write", "arguments": {"path": "a", "content": "x".repeat(20_000)}});
    for (media, body, status, kind) in [
        ("application/json", large.to_string(), 413, "too-large"),
        ("application/json", "{".to_owned(), 400, "bad-request"),
        ("application/json", String::new(), 400, "bad-request"),
        ("application/json", "[]".to_owned(), 400, "bad-request"),
        (
            "application/json",
            "{\"tool\": 1}".to_owned(),
            400,
            "bad-request",
        ),
        (
            "application/json",
            "{\"tool\": \"read\", \"tol\": 1}".to_owned(),
            400,
            "bad-request",
        ),
        (
            "application/json",
            format!(
                "{{\"tool\": \"read\", \"arguments\": {}1{}}}",
                "[".repeat(2_000),
                "]".repeat(2_000)
            ),
            400,
            "bad-request",
        ),
        (
            "application/json",
            "{\"tool\": \"read\", \"tool\": \"bash\"}".to_owned(),
            400,
            "bad-request",
        ),
        (
            "text/plain",
            "{\"tool\": \"read\"}".to_owned(),
            415,
            "unsupported-media-type",
        ),
        (
            "application/x-www-form-urlencoded",
            "tool=read".to_owned(),
            415,
            "unsupported-media-type",
        ),
    ] {
        let refused = post_text(&agent, media, body.clone()).await;
        assert_eq!(refused.is(status).problem(), kind, "{media} {body}");
    }
    let wait = json!({"tool": "read", "wait_ms": 600_001});
    assert_eq!(
        agent.post("/v1/calls", wait).await.is(400).problem(),
        "bad-request"
    );
    let kind = json!({"tool": "read", "session_kind": "owner"});
    agent.post("/v1/calls", kind).await.is(400);
    let session = json!({"tool": "read", "session": "a b"});
    agent.post("/v1/calls", session).await.is(400);
    agent
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(200);
    served.close().await;
}

#[tokio::test]
async fn paths_and_methods_that_lead_nowhere_are_problems_too() {
    let served = Served::open(CAREFUL).await;
    let agent = served.admin("acme").await;
    for path in [
        "/v1",
        "/v1/call",
        "/v1/calls/x",
        "/v1/calls/%2e%2e",
        "/v1/tools/a%00b",
        "/v1/approvals/x",
        "/v1/calls/00000000-0000-0000-0000-000000000000/output",
    ] {
        assert_eq!(
            agent.get(path).await.is(404).problem(),
            "not-found",
            "{path}"
        );
    }
    let put = answer(agent.request(Method::PUT, "/v1/calls")).await;
    assert_eq!(put.is(405).problem(), "method-not-allowed");
    let trace = answer(agent.request(Method::TRACE, "/v1/calls")).await;
    trace.is(405);
    served.close().await;
}

/// Sends bytes as they are and reads the beginning of what comes back; nothing if the connection ends.
async fn raw(served: &Served, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(served.address()).await.unwrap();
    // The server may have refused and closed before it read everything.
    let _ = stream.write_all(bytes).await;
    // The first piece has the status line; a connection that stays open says no more.
    let mut answer = vec![0; 4_096];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer));
    let read = read.await.unwrap().unwrap_or(0);
    String::from_utf8_lossy(&answer[..read]).into_owned()
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let many = "x-many: 1\r\n".repeat(200);
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "y".repeat(1 << 20)
    );
    let smuggled = "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/keys HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for odd in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        long,
        smuggled.to_owned(),
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n".to_owned(),
        "GET http://evil.example/v1/calls HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        let said = raw(&served, odd.as_bytes()).await;
        let line = said.lines().next().unwrap_or_default();
        assert!(
            !line.contains(" 200"),
            "{}: {said}",
            &odd[..odd.len().min(80)]
        );
    }
    agent
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(200);
    served.close().await;
}
