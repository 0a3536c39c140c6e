//! OpenAI's Chat Completions, which most model servers speak: `tool_calls` of an assistant message
//! in, messages of the role `tool` out. A tool message carries text only.

use serde_json::{Value, json};

use super::{ModelAnswer, ModelCall, ModelRequest, ShapeError, arguments_of, id_of, required_text};

/// Reads the `tool_calls` array of a message, or the message that contains it. Every element is a
/// call; without an array there are none.
pub fn calls(tool_calls: &Value) -> Vec<ModelCall> {
    match tool_calls {
        Value::Array(calls) => calls.iter().map(call).collect(),
        Value::Object(message) => match message.get("tool_calls") {
            Some(Value::Array(calls)) => calls.iter().map(call).collect(),
            Some(Value::Null) | None if message.contains_key("role") => Vec::new(),
            Some(_) | None => vec![call(tool_calls)],
        },
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![call(tool_calls)],
    }
}

/// Reads one element of `tool_calls`.
pub fn call(tool_call: &Value) -> ModelCall {
    ModelCall {
        id: id_of(tool_call, "id"),
        asked: asked(tool_call),
    }
}

/// The message that answers a call.
pub fn tool_message(answered: &ModelAnswer) -> Value {
    json!({
        "role": "tool",
        "tool_call_id": answered.id(),
        "content": answered.text(),
    })
}

fn asked(tool_call: &Value) -> Result<ModelRequest, ShapeError> {
    // Servers that only support functions omit the type.
    let kind = tool_call.get("type").unwrap_or(&Value::Null);
    if !kind.is_null() && kind != "function" {
        return Err(ShapeError::new(
            "/type",
            "the tool call is not a function call",
            "call one of the functions you were given",
        ));
    }
    if !tool_call.get("function").is_some_and(Value::is_object) {
        return Err(ShapeError::new(
            "/function",
            "the tool call has no function",
            "send {\"id\": …, \"type\": \"function\", \"function\": {\"name\": …, \"arguments\": …}}",
        ));
    }
    Ok(ModelRequest {
        tool: required_text(tool_call, "/function/name")?,
        arguments: arguments_of(tool_call, "/function/arguments"),
    })
}
