//! Definitions as the protocol shows them.

use std::sync::Arc;

use haft_runtime::registry::{Entry, Format};
use rmcp::model::Tool;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A tool as the protocol lists it. Before 2026-07-28 structured output was an object or nothing.
pub(super) fn shown(tool: &Arc<Entry>, any_schema: bool) -> Option<Tool> {
    let mut shown = tool.rendering(Format::Mcp).clone();
    if let Some(fields) = shown.as_object_mut() {
        let schema = fields.get("outputSchema").and_then(Value::as_object);
        let is_object = schema.and_then(|schema| schema.get("type")) == Some(&json!("object"));
        let says_something = schema.is_some_and(|schema| !schema.is_empty());
        if !(is_object || any_schema && says_something) {
            fields.remove("outputSchema");
        }
    }
    typed(shown)
}

pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value)
        .inspect_err(|error| tracing::warn!(%error, "a definition is left out of a list"))
        .ok()
}

/// Whether a schema asks for parameters as headers.
pub(super) fn names_headers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-mcp-header") || fields.values().any(names_headers)
        }
        Value::Array(items) => items.iter().any(names_headers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
