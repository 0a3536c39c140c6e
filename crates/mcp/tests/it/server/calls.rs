//! Calling tools: results, progress, and what happens to a call nobody waits for.

use std::time::Duration;

use haft_mcp::server::SessionScope;
use serde_json::json;

use super::{Era, Stage};

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_in_both_eras() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let result = wire.call("count", json!({"to": 3})).await;
        assert_eq!(result["structuredContent"], json!({"counted": 3}));
        assert_eq!(result["isError"], json!(false));
        assert_eq!(result["_meta"]["dev.haft/terminal"], "succeeded");
        let is_modern = era == Era::Modern;
        assert_eq!(result.get("resultType").is_some(), is_modern, "{result}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_model_gets_wrong_it_can_read() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let result = wire.call("count", json!({"too": 3})).await;
        assert_eq!(result["isError"], json!(true));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("to"), "{text}");
        let unknown = json!({"name": "cuont", "arguments": {}});
        let unknown = wire.ask("tools/call", unknown).await;
        assert_eq!(unknown["error"]["code"], json!(-32602));
        let message = unknown["error"]["message"].as_str().unwrap();
        assert!(message.contains("count"), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_for_whoever_asked_for_it_and_only_increases() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let arguments = json!({"to": 5, "pause_ms": 60});
        wire.call("count", arguments.clone()).await;
        assert!(wire.heard.is_empty(), "{:?}", wire.heard);
        let parameters =
            json!({"name": "count", "arguments": arguments, "_meta": {"progressToken": "p"}});
        wire.ask("tools/call", parameters).await;
        let told: Vec<f64> = wire
            .heard
            .iter()
            .map(|message| {
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"]["progressToken"], "p");
                assert_eq!(message["params"]["total"], json!(5.0));
                message["params"]["progress"].as_f64().unwrap()
            })
            .collect();
        assert!(told.len() >= 3, "{told:?}");
        assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
        assert_eq!(told.last(), Some(&5.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_cancels_its_call_and_gets_no_answer() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let parameters = json!({"name": "sleep", "arguments": {"ms": 60_000}});
        let id = wire.start("tools/call", parameters).await;
        stage.until_busy().await;
        let cancel = json!({"requestId": id, "reason": "enough"});
        wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
            .await;
        stage.until_quiet().await;
        assert_eq!(stage.terminals().last().unwrap(), "cancelled");
        let after = wire.start("tools/list", json!({})).await;
        let first = wire.next().await.unwrap();
        assert_eq!(first["id"], json!(after), "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_leaves_no_call_behind() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, served) = stage.connect(era).await;
        let parameters = json!({"name": "sleep", "arguments": {"ms": 60_000}});
        wire.start("tools/call", parameters).await;
        stage.until_busy().await;
        drop(wire);
        served.await.unwrap();
        stage.until_quiet().await;
        assert_eq!(stage.terminals().last().unwrap(), "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_writes_and_then_reads_gets_its_answers() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, served) = stage.connect(era).await;
        let parameters = json!({"name": "count", "arguments": {"to": 1, "pause_ms": 10}});
        let id = wire.start("tools/call", parameters).await;
        wire.close().await;
        let answer = wire.answer(id).await;
        assert_eq!(answer["result"]["isError"], json!(false), "{answer}");
        served.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn spilled_output_is_linked_and_read_as_a_resource() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let row: Vec<u8> = b"0123456789012345678901234567890123456789\n".to_vec();
        let arguments = json!({"chunks": [{"bytes": row}], "repeat": 5_000});
        let result = wire.call("emit", arguments).await;
        let content = result["content"].as_array().unwrap();
        let link = content.last().unwrap();
        assert_eq!(link["type"], "resource_link", "{link}");
        assert_eq!(link["size"], json!(205_000));
        let read = wire
            .ask("resources/read", json!({"uri": link["uri"]}))
            .await;
        let page = &read["result"]["contents"][0];
        assert!(page["text"].as_str().unwrap().starts_with("0123456789"));
        let next = page["_meta"]["dev.haft/next"].as_str().unwrap().to_owned();
        let read = wire.ask("resources/read", json!({"uri": next})).await;
        assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
        let uri = "haft://output/01890000-0000-7000-8000-000000000000";
        let missing = wire.ask("resources/read", json!({ "uri": uri })).await;
        assert!(missing.get("error").is_some(), "{missing}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_is_dropped_and_the_connection_kept() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect(Era::Legacy).await;
    let long = "x".repeat(haft_mcp::server::MAX_MESSAGE_BYTES + 10);
    wire.send(json!({"jsonrpc": "2.0", "id": 900, "method": "tools/list", "params": {"x": long}}))
        .await;
    let listed = wire.ask("tools/list", json!({})).await;
    assert!(listed.get("result").is_some());
    assert!(wire.heard.iter().all(|it| it["id"] != json!(900)));
}

#[tokio::test(start_paused = true)]
async fn so_many_requests_of_a_connection_are_served_at_once_and_no_more() {
    let stage = Stage::with(
        |endpoint| endpoint.requests_in_flight(2),
        SessionScope::OfEndpoint,
    );
    let (mut wire, _) = stage.connect(Era::Legacy).await;
    let long = json!({"name": "sleep", "arguments": {"ms": 3_600_000}});
    let first = wire.start("tools/call", long.clone()).await;
    wire.start("tools/call", long.clone()).await;
    while stage.calls.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refused = wire.ask("tools/call", long).await;
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("requests_in_flight"), "{why}");
    assert_eq!(stage.calls.len(), 2, "it was not looked at");
    // A cancel gets through, and makes room.
    let cancel = json!({"requestId": first});
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    while stage.calls.len() > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while wire
        .ask("tools/list", json!({}))
        .await
        .get("error")
        .is_some()
    {}
}
