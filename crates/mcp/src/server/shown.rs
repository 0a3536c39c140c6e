//! Definitions as the protocol shows them.

use std::sync::Arc;

use haft_runtime::registry::{Entry, Format};
use rmcp::model::Tool;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A tool as the protocol lists it.
pub(super) fn shown(tool: &Arc<Entry>) -> Option<Tool> {
    let mut shown = tool.rendering(Format::Mcp).clone();
    // A mounted server's schema is shown as it came: it is what was reviewed.
    if !is_mounted(tool) {
        shown
            .get_mut("inputSchema")
            .into_iter()
            .for_each(split_types);
    }
    typed(shown)
}

pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value)
        .inspect_err(|error| tracing::warn!(%error, "a definition is left out of a list"))
        .ok()
}

fn is_mounted(tool: &Entry) -> bool {
    tool.key().provider.mounted_server().is_some()
}

/// Says the same with one type in each place: not every provider takes a list of them.
fn split_types(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Array(types)) = fields.get("type")
                && !fields.contains_key("anyOf")
            {
                let branches: Vec<Value> = types.iter().map(|it| json!({ "type": it })).collect();
                fields.remove("type");
                fields.insert("anyOf".to_owned(), Value::Array(branches));
            }
            fields.values_mut().for_each(split_types);
        }
        Value::Array(items) => items.iter_mut().for_each(split_types),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_types_becomes_a_choice_that_means_the_same() {
        let mut schema = json!({"properties": {
            "a": {"type": ["string", "null"], "description": "d"},
            "type": {"type": "string"},
        }});
        split_types(&mut schema);
        assert_eq!(
            schema,
            json!({"properties": {
                "a": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
                "type": {"type": "string"},
            }})
        );
    }

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
