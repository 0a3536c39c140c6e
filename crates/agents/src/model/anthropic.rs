//! Anthropic's Messages API, streamed if the agent asks for it.

use serde_json::{Value, json};

use super::{Conversation, OfferedTool, SpokenTurn, given, is_kind, list, text};
use crate::http::Reply;

pub(super) fn read(body: &Value) -> Conversation {
    let offered = list(body.get("tools")).map(|tool| OfferedTool {
        name: text(tool.get("name")),
        namespace: None,
        definition: tool.clone(),
    });
    let messages: Vec<&Value> = list(body.get("messages")).collect();
    let turns = messages
        .iter()
        .filter(|message| message.get("role").is_some_and(|role| role == "assistant"))
        .count();
    let results = messages
        .iter()
        .flat_map(|message| list(message.get("content")))
        .filter(|block| is_kind(block, "tool_result"))
        .map(|block| given(block.get("content"), |piece| is_kind(piece, "image")));
    Conversation {
        turns,
        offered: offered.collect(),
        given: results.collect(),
    }
}

pub(super) fn write(body: &Value, said: &SpokenTurn<'_>, turn: usize) -> Reply {
    let (blocks, stop) = match said {
        SpokenTurn::Text(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
        SpokenTurn::Calls(calls) => {
            let block = |(n, (tool, input)): (usize, &(OfferedTool, Value))| {
                let id = format!("toolu_{turn}_{n}");
                json!({"type": "tool_use", "id": id, "name": tool.name, "input": input})
            };
            (calls.iter().enumerate().map(block).collect(), "tool_use")
        }
    };
    let model = body.get("model").cloned().unwrap_or_default();
    let message = |content: Value, stop: Value| {
        json!({
            "id": format!("msg_{turn}"), "type": "message", "role": "assistant", "model": model,
            "content": content, "stop_reason": stop, "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        })
    };
    if body.get("stream") != Some(&json!(true)) {
        return Reply::json(&message(json!(blocks), json!(stop)));
    }
    let start = json!({"type": "message_start", "message": message(json!([]), Value::Null)});
    let mut events = vec![("message_start", start.to_string())];
    for (index, block) in blocks.iter().enumerate() {
        let (empty, delta) = match block.get("input") {
            Some(input) => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            ),
            None => (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": block["text"]}),
            ),
        };
        for event in [
            json!({"type": "content_block_start", "index": index, "content_block": empty}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ] {
            let name = match event["type"].as_str() {
                Some("content_block_start") => "content_block_start",
                Some("content_block_delta") => "content_block_delta",
                _ => "content_block_stop",
            };
            events.push((name, event.to_string()));
        }
    }
    let delta = json!({"type": "message_delta", "usage": {"output_tokens": 5},
        "delta": {"stop_reason": stop, "stop_sequence": null}});
    events.push(("message_delta", delta.to_string()));
    let stop = json!({"type": "message_stop"});
    events.push(("message_stop", stop.to_string()));
    Reply::events(events)
}
