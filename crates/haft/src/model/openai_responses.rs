//! OpenAI's Responses API: `function_call` items of an output in, `function_call_output` items of
//! the next input out. Its function descriptions are flat, unlike those of Chat Completions.

use haft_contract::Content;
use serde_json::{Value, json};

use super::{
    ModelAnswer, ModelCall, ModelRequest, ShapeError, arguments_of, data_url, id_of, in_words,
    required_text,
};

/// Reads the function calls of an `output` array, or of the response that contains it. Messages,
/// reasoning and tools run by the provider are not calls.
pub fn calls(output: &Value) -> Vec<ModelCall> {
    let items = output.get("output").unwrap_or(output);
    match items {
        Value::Array(items) => items
            .iter()
            .filter(|item| is_call(item))
            .map(call)
            .collect(),
        Value::Object(_) if is_call(items) => vec![call(items)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Vec::new()
        }
    }
}

/// Reads one `function_call` item.
pub fn call(item: &Value) -> ModelCall {
    ModelCall {
        id: id_of(item, "call_id"),
        asked: asked(item),
    }
}

/// The item that answers a call.
pub fn function_call_output(answered: &ModelAnswer) -> Value {
    let pieces = answered.pieces();
    let only_text = pieces.iter().all(|piece| piece.as_text().is_some());
    let output = if only_text {
        Value::from(answered.text())
    } else {
        pieces.iter().map(part).collect()
    };
    json!({
        "type": "function_call_output",
        "call_id": answered.id(),
        "output": output,
    })
}

/// Converts a function description from Chat Completions to this API's format.
pub fn function(chat_function: &Value) -> Value {
    let mut flat = chat_function.get("function").cloned().unwrap_or_default();
    if let Some(object) = flat.as_object_mut() {
        object.insert("type".to_owned(), json!("function"));
        // Strict schemas allow no optional parameter; the pipeline checks the arguments anyway.
        object.insert("strict".to_owned(), json!(false));
    }
    flat
}

fn is_call(item: &Value) -> bool {
    item.get("type").is_some_and(|kind| kind == "function_call")
}

fn asked(item: &Value) -> Result<ModelRequest, ShapeError> {
    Ok(ModelRequest {
        tool: required_text(item, "/name")?,
        arguments: arguments_of(item, "/arguments"),
    })
}

fn part(piece: &Content) -> Value {
    match piece {
        Content::Text(_)
        | Content::Audio { .. }
        | Content::Resource { .. }
        | Content::Link { .. } => {
            json!({"type": "input_text", "text": in_words(piece)})
        }
        Content::Image { data, media_type } => {
            json!({"type": "input_image", "image_url": data_url(media_type, data)})
        }
        Content::Document {
            data,
            media_type,
            name,
        } => json!({
            "type": "input_file",
            "filename": name,
            "file_data": data_url(media_type, data),
        }),
    }
}
