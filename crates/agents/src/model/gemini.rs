//! Google's Gemini API, streamed as server-sent events.

use serde_json::{Value, json};

use super::{Conversation, GivenResult, OfferedTool, SpokenTurn, list, text};
use crate::http::Reply;

pub(super) fn read(body: &Value) -> Conversation {
    let offered = list(body.get("tools"))
        .flat_map(|tools| list(tools.get("functionDeclarations")))
        .map(|tool| OfferedTool {
            name: text(tool.get("name")),
            namespace: None,
            definition: tool.clone(),
        });
    let contents: Vec<&Value> = list(body.get("contents")).collect();
    let turns = contents
        .iter()
        .filter(|content| content.get("role").is_some_and(|role| role == "model"))
        .count();
    let mut results: Vec<GivenResult> = Vec::new();
    for part in contents
        .iter()
        .flat_map(|content| list(content.get("parts")))
    {
        if let Some(response) = part.pointer("/functionResponse") {
            let images = list(response.get("parts"))
                .filter(|part| part.get("inlineData").is_some())
                .count();
            let text = match response.get("response") {
                Some(Value::Object(fields)) if fields.len() == 1 => {
                    fields.values().map(plain).collect()
                }
                Some(other) => other.to_string(),
                None => String::new(),
            };
            results.push(GivenResult { text, images });
        } else if let (Some(_), Some(last)) = (part.get("inlineData"), results.last_mut()) {
            last.images += 1;
        }
    }
    Conversation {
        turns,
        offered: offered.collect(),
        given: results,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn write(said: &SpokenTurn<'_>) -> Reply {
    let parts: Vec<Value> = match said {
        SpokenTurn::Text(text) => vec![json!({"text": text})],
        SpokenTurn::Calls(calls) => calls
            .iter()
            .map(|(tool, input)| json!({"functionCall": {"name": tool.name, "args": input}}))
            .collect(),
    };
    let answer = json!({
        "candidates": [{
            "content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0,
        }],
        "usageMetadata":
            {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "scripted",
    });
    Reply::events([("", answer.to_string())])
}
