//! OpenAI's Responses API, always streamed. Tools of an MCP server may come as a namespace.

use serde_json::{Value, json};

use super::{Conversation, OfferedTool, SpokenTurn, given, is_kind, list, text};
use crate::http::Reply;

pub(super) fn read(body: &Value) -> Conversation {
    let offered = list(body.get("tools")).flat_map(|tool| {
        let namespace = is_kind(tool, "namespace").then(|| text(tool.get("name")));
        let offered = |tool: &Value| OfferedTool {
            name: text(tool.get("name")),
            namespace: namespace.clone(),
            definition: tool.clone(),
        };
        match &namespace {
            Some(_) => list(tool.get("tools")).map(offered).collect(),
            None => vec![offered(tool)],
        }
    });
    let offered: Vec<OfferedTool> = offered.collect();
    let items: Vec<&Value> = list(body.get("input")).collect();
    let is_ours = |item: &Value| {
        let calls = is_kind(item, "function_call");
        let says = is_kind(item, "message") && item.get("role").is_some_and(|it| it == "assistant");
        (calls, says)
    };
    // Calls of one turn follow each other.
    let mut turns = 0;
    let mut in_calls = false;
    for item in &items {
        let (calls, says) = is_ours(item);
        turns += usize::from(says || calls && !in_calls);
        in_calls = calls;
    }
    let results = items
        .iter()
        .filter(|item| is_kind(item, "function_call_output"))
        .map(|item| given(item.get("output"), |piece| is_kind(piece, "input_image")));
    Conversation {
        turns,
        offered,
        given: results.collect(),
    }
}

pub(super) fn write(said: &SpokenTurn<'_>, turn: usize) -> Reply {
    let items: Vec<Value> = match said {
        SpokenTurn::Text(text) => vec![json!({
            "type": "message", "role": "assistant", "id": format!("msg_{turn}"),
            "content": [{"type": "output_text", "text": text}],
        })],
        SpokenTurn::Calls(calls) => calls
            .iter()
            .enumerate()
            .map(|(n, (tool, input))| {
                let mut item = json!({
                    "type": "function_call", "id": format!("fc_{turn}_{n}"),
                    "call_id": format!("call_{turn}_{n}"), "name": tool.name,
                    "arguments": input.to_string(),
                });
                if let Some(namespace) = &tool.namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            })
            .collect(),
    };
    let id = format!("resp_{turn}");
    let created = json!({"type": "response.created", "response": {"id": id}});
    let mut events = vec![("response.created", created.to_string())];
    for (index, item) in items.iter().enumerate() {
        let done =
            json!({"type": "response.output_item.done", "output_index": index, "item": item});
        events.push(("response.output_item.done", done.to_string()));
    }
    let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2});
    let completed = json!({"type": "response.completed", "response": {"id": id, "usage": usage}});
    events.push(("response.completed", completed.to_string()));
    Reply::events(events)
}
