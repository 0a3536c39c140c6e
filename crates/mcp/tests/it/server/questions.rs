//! What a call asks its client while it runs.

use serde_json::{Value, json};

use super::{Era, Stage};

fn asks(method: &str, parameters: &Value) -> Value {
    json!({"name": "speak", "arguments": {"ask": [method, parameters]}})
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_the_client_and_its_answer_to_the_call() {
    let stage = Stage::new();
    let able = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let (mut wire, _) = stage.connect_able(Era::Legacy, able).await;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    for (method, parameters, answer) in [
        (
            "elicitation/create",
            json!({"message": "who?", "requestedSchema": schema}),
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 5}),
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}}),
        ),
        (
            "roots/list",
            json!({}),
            json!({"roots": [{"uri": "file:///w"}]}),
        ),
    ] {
        let id = wire.start("tools/call", asks(method, &parameters)).await;
        let asked = wire.hear(method).await;
        for (key, value) in parameters.as_object().unwrap() {
            assert_eq!(&asked["params"][key], value, "{asked}");
        }
        wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}))
            .await;
        let result = wire.answer(id).await;
        let answered = &result["result"]["structuredContent"]["answered"][0];
        for (key, value) in answer.as_object().unwrap() {
            assert_eq!(&answered[key], value, "{answered}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_be_asked_is_not() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let parameters = asks("elicitation/create", &json!({"message": "who?"}));
        let result = wire.ask("tools/call", parameters).await;
        let answered = result["result"]["structuredContent"]["answered"].to_string();
        assert!(answered.contains("cannot be asked"), "{result}");
        assert!(wire.heard.is_empty(), "{:?}", wire.heard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_with_an_error_has_refused() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect_able(Era::Legacy, json!({"roots": {}})).await;
    let id = wire
        .start("tools/call", asks("roots/list", &json!({})))
        .await;
    let asked = wire.hear("roots/list").await;
    let error = json!({"code": -32000, "message": "not now"});
    wire.send(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}))
        .await;
    let result = wire.answer(id).await.to_string();
    assert!(result.contains("not now"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_cancelled_call_is_withdrawn() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect_able(Era::Legacy, json!({"roots": {}})).await;
    let id = wire
        .start("tools/call", asks("roots/list", &json!({})))
        .await;
    let asked = wire.hear("roots/list").await;
    let cancel = json!({"requestId": id});
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    let withdrawn = wire.hear("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
    stage.until_quiet().await;
}
