//! OpenAI's Chat Completions API, which most other providers use too; streamed if the agent asks
//! for it.

use serde_json::{Value, json};

use super::{Conversation, OfferedTool, SpokenTurn, given, is_kind, list, text};
use crate::http::Reply;

pub(super) fn read(body: &Value) -> Conversation {
    let offered = list(body.get("tools")).map(|tool| OfferedTool {
        name: text(tool.pointer("/function/name")),
        namespace: None,
        definition: tool.clone(),
    });
    let messages: Vec<&Value> = list(body.get("messages")).collect();
    let of =
        |role: &'static str| move |message: &&&Value| message.get("role") == Some(&json!(role));
    let is_image = |piece: &Value| is_kind(piece, "image_url");
    let mut results = Vec::new();
    for message in &messages {
        match message.get("role").and_then(Value::as_str) {
            Some("tool") => results.push(given(message.get("content"), is_image)),
            // Many providers take no images in results, so agents send them in a following message.
            Some("user") => {
                let images = given(message.get("content"), is_image).images;
                if let Some(last) = results.last_mut() {
                    last.images += images;
                }
            }
            _ => {}
        }
    }
    Conversation {
        turns: messages.iter().filter(of("assistant")).count(),
        offered: offered.collect(),
        given: results,
    }
}

pub(super) fn write(body: &Value, said: &SpokenTurn<'_>, turn: usize) -> Reply {
    let (message, finish) = match said {
        SpokenTurn::Text(text) => (json!({"role": "assistant", "content": text}), "stop"),
        SpokenTurn::Calls(calls) => {
            let call = |(n, (tool, input)): (usize, &(OfferedTool, Value))| {
                json!({
                    "index": n, "id": format!("call_{turn}_{n}"), "type": "function",
                    "function": {"name": tool.name, "arguments": input.to_string()},
                })
            };
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
            (message, "tool_calls")
        }
    };
    let model = body.get("model").cloned().unwrap_or_default();
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
    let (id, created) = (format!("chat_{turn}"), 1_700_000_000);
    if body.get("stream") != Some(&json!(true)) {
        return Reply::json(&json!({
            "id": id, "object": "chat.completion", "created": created, "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage,
        }));
    }
    let chunk = |delta: Value, finish: Value, usage: Value| {
        let chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": created, "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage,
        });
        ("", chunk.to_string())
    };
    Reply::events([
        chunk(message, Value::Null, Value::Null),
        chunk(json!({}), json!(finish), usage),
        ("", "[DONE]".to_owned()),
    ])
}
