//! Definitions in the form the protocol lists them.

use std::sync::Arc;

use haft_runtime::registry::{Entry, Format};
use rmcp::model::Tool;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool in the protocol's form.
pub(super) fn shown(tool: &Arc<Entry>) -> Option<Tool> {
    typed(tool.rendering(Format::Mcp).clone())
}

pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value)
        .inspect_err(|error| tracing::warn!(%error, "a definition is left out of a list"))
        .ok()
}

/// Whether a schema wants parameters repeated as headers.
pub(super) fn names_headers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.contains_key("x-mcp-header") || fields.values().any(names_headers)
        }
        Value::Array(items) => items.iter().any(names_headers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_is_found_wherever_a_schema_names_it() {
        assert!(names_headers(
            &json!({"properties": {"a": {"x-mcp-header": "Region"}}})
        ));
        assert!(!names_headers(
            &json!({"properties": {"a": {"type": "string"}}})
        ));
    }
}
