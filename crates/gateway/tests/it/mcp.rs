//! MCP at `/mcp`, in front of the same host: each credential has its own tenant, workspace and sessions.

use reqwest::Method;
use serde_json::{Value, json};

use crate::served::{Answer, CAREFUL, Client, Served, answer};

async fn send(client: &Client, session: Option<&str>, message: Value) -> Answer {
    let request = client.request(Method::POST, "/mcp").json(&message);
    let mut request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    answer(request).await
}

async fn begin(client: &Client) -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let begun = send(client, None, hello).await;
    let session = begun.is(200).headers["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    send(client, Some(&session), ready).await.is(202);
    session
}

fn read(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "read", "arguments": {"path": "notes.txt"}},
    })
}

#[tokio::test]
async fn each_credential_has_its_own_files_and_sessions() {
    let served = Served::open(CAREFUL).await;
    let mut sessions = Vec::new();
    for tenant in ["acme", "beta"] {
        let client = served.client(tenant, "writer", &["call"]).await;
        let session = begin(&client).await;
        let answered = send(&client, Some(&session), read(2)).await;
        let text = answered.is(200).body.to_string();
        assert!(text.contains(&format!("this is {tenant}")), "{text}");
        sessions.push((client, session));
    }
    let (acme, beta) = (&sessions[0], &sessions[1]);
    let foreign = send(&beta.0, Some(&acme.1), read(3)).await;
    let nothing = send(&beta.0, Some("no-such-session"), read(3)).await;
    assert_eq!(foreign.is(404).body, nothing.is(404).body);
    let calls = served.admin("acme").await.get("/v1/calls?tool=read").await;
    assert_eq!(calls.is(200).items().len(), 1);
    assert_eq!(calls.items()[0]["agent"], "writer");
    served.close().await;
}

#[tokio::test]
async fn a_credential_that_may_not_call_speaks_no_mcp() {
    let served = Served::open(CAREFUL).await;
    let reader = served.client("acme", "reader", &["read"]).await;
    assert_eq!(
        send(&reader, None, read(1)).await.is(403).problem(),
        "forbidden"
    );
    let nobody = Client {
        key: String::new(),
        ..reader
    };
    send(&nobody, None, read(1)).await.is(401);
    served.close().await;
}
