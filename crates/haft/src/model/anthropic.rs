//! Anthropic's Messages API: `tool_use` blocks of an assistant message in, `tool_result` blocks of
//! the next user message out.

use haft_contract::Content;
use serde_json::{Value, json};

use super::{
    ModelAnswer, ModelCall, ModelRequest, ShapeError, arguments_of, base64, id_of, in_words,
    required_text,
};

/// The image types this API accepts.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// The document type this API accepts as bytes.
const DOCUMENT: &str = "application/pdf";

/// Reads the `tool_use` blocks of a `content` array, or of the message that contains it. Text,
/// thinking and tools run by the provider are not calls.
pub fn calls(content: &Value) -> Vec<ModelCall> {
    let blocks = content.get("content").unwrap_or(content);
    match blocks {
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| is_call(block))
            .map(call)
            .collect(),
        Value::Object(_) if is_call(blocks) => vec![call(blocks)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Vec::new()
        }
    }
}

/// Reads one `tool_use` block.
pub fn call(block: &Value) -> ModelCall {
    ModelCall {
        id: id_of(block, "id"),
        asked: asked(block),
    }
}

/// The block that answers a call.
pub fn tool_result(answered: &ModelAnswer) -> Value {
    let is_error = !answered.outcome.succeeded();
    let pieces = answered.pieces();
    // An error result may contain only text.
    let show = if is_error { text_block } else { block };
    json!({
        "type": "tool_result",
        "tool_use_id": answered.id(),
        "content": pieces.iter().map(show).collect::<Vec<Value>>(),
        "is_error": is_error,
    })
}

fn is_call(block: &Value) -> bool {
    block.get("type").is_some_and(|kind| kind == "tool_use")
}

fn asked(block: &Value) -> Result<ModelRequest, ShapeError> {
    Ok(ModelRequest {
        tool: required_text(block, "/name")?,
        arguments: arguments_of(block, "/input"),
    })
}

fn block(piece: &Content) -> Value {
    match piece {
        Content::Image { data, media_type } if IMAGES.contains(&media_type.as_str()) => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": media_type, "data": base64(data)},
        }),
        Content::Document {
            data,
            media_type,
            name,
        } if media_type == DOCUMENT => json!({
            "type": "document",
            "source": {"type": "base64", "media_type": media_type, "data": base64(data)},
            "title": name,
        }),
        Content::Text(_)
        | Content::Image { .. }
        | Content::Audio { .. }
        | Content::Document { .. }
        | Content::Resource { .. }
        | Content::Link { .. } => text_block(piece),
    }
}

fn text_block(piece: &Content) -> Value {
    json!({"type": "text", "text": in_words(piece)})
}
