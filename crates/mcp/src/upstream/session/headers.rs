//! HTTP headers of stateless requests: the method, the name, and the arguments that a tool's schema
//! marks with `x-mcp-header`.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// The schema key that marks an argument.
const MARK: &str = "x-mcp-header";

/// How deep a schema is searched.
const MAX_DEPTH: usize = 64;

/// The location of a marked argument, and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeaderArgument {
    path: Vec<String>,
    header: HeaderName,
}

/// The marked arguments of every tool, by the server's own names.
#[derive(Debug, Default)]
pub(super) struct ParameterHeaders(Mutex<BTreeMap<String, Vec<HeaderArgument>>>);

impl ParameterHeaders {
    /// Reads the marks of these tools, and drops the tools whose marks are not valid.
    pub(super) fn learn(&self, tools: &mut Vec<Value>) {
        let mut known = BTreeMap::new();
        tools.retain(|tool| {
            let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
            match marks(tool.get("inputSchema")) {
                Ok(marked) if marked.is_empty() => true,
                Ok(marked) => {
                    known.insert(name.to_owned(), marked);
                    true
                }
                Err(reason) => {
                    tracing::warn!(tool = %name.escape_debug(), reason, "a mounted tool is left out");
                    false
                }
            }
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// The headers of a request.
    pub(super) fn of(&self, method: &str, parameters: &Value) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        let mut push = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(&encode(value)) {
                headers.push((name, value));
            }
        };
        push(HeaderName::from_static("mcp-method"), method);
        let named_by = match method {
            "tools/call" | "prompts/get" => Some("name"),
            "resources/read" => Some("uri"),
            _ => None,
        };
        let name = named_by.and_then(|key| parameters.get(key)?.as_str());
        if let Some(name) = name {
            push(HeaderName::from_static("mcp-name"), name);
        }
        if method == "tools/call" {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let marked = name.and_then(|name| known.get(name));
            for HeaderArgument { path, header } in marked.into_iter().flatten() {
                let arguments = parameters.get("arguments");
                let value = path
                    .iter()
                    .try_fold(arguments, |at, key| Some(at?.get(key)));
                let text = match value.flatten() {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Bool(flag)) => flag.to_string(),
                    Some(Value::Number(number)) => number.to_string(),
                    Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => continue,
                };
                push(header.clone(), &text);
            }
        }
        headers
    }
}

/// Encodes a value for a header.
fn encode(value: &str) -> String {
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    let cut_short = value.starts_with(' ') || value.ends_with(' ');
    if looks_encoded || cut_short || !value.chars().all(|c| matches!(c, ' '..='~')) {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value))
    } else {
        value.to_owned()
    }
}

fn marks(schema: Option<&Value>) -> Result<Vec<HeaderArgument>, &'static str> {
    let Some(Value::Object(schema)) = schema else {
        return Ok(Vec::new());
    };
    if schema.contains_key(MARK) {
        return Err("`x-mcp-header` is at the root of its schema");
    }
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    let mut seen = HashSet::new();
    if !found
        .iter()
        .all(|marked: &HeaderArgument| seen.insert(&marked.header))
    {
        return Err("two of its parameters go into the same `x-mcp-header`");
    }
    Ok(found)
}

fn collect(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<HeaderArgument>,
) -> Result<(), &'static str> {
    if path.len() > MAX_DEPTH {
        return Err("its schema is nested too deep");
    }
    for (keyword, value) in schema {
        match keyword.as_str() {
            // Handled with its property, or a value and not a schema.
            MARK | "default" | "const" | "enum" | "examples" => {}
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    let Some(property) = property.as_object() else {
                        continue;
                    };
                    path.push(name.clone());
                    if let Some(mark) = property.get(MARK) {
                        found.push(marked(mark, property, path)?);
                    }
                    collect(property, path, found)?;
                    path.pop();
                }
            }
            _ if holds_mark(value, 0) => {
                return Err("`x-mcp-header` is not on a plain parameter");
            }
            _ => {}
        }
    }
    Ok(())
}

fn marked(
    mark: &Value,
    property: &Map<String, Value>,
    path: &[String],
) -> Result<HeaderArgument, &'static str> {
    let name = mark.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("an `x-mcp-header` is not a name")?;
    let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes());
    let header = header.map_err(|_| "an `x-mcp-header` is not the name of a header")?;
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(HeaderArgument {
            path: path.to_vec(),
            header,
        }),
        Some(_) | None => {
            Err("an `x-mcp-header` marks something other than a text, a number or a flag")
        }
    }
}

fn holds_mark(value: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return true;
    }
    match value {
        Value::Object(object) => {
            object.contains_key(MARK) || object.values().any(|value| holds_mark(value, depth + 1))
        }
        Value::Array(items) => items.iter().any(|value| holds_mark(value, depth + 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: &Value) -> Value {
        json!({ "name": name, "inputSchema": schema })
    }

    #[test]
    fn marked_arguments_travel_in_headers() {
        let headers = ParameterHeaders::default();
        let mut tools = vec![tool(
            "query",
            &json!({ "type": "object", "properties": {
                "region": { "type": "string", "x-mcp-header": "Region" },
                "deep": { "type": "object", "properties": {
                    "on": { "type": "boolean", "x-mcp-header": "On" } } } } }),
        )];
        headers.learn(&mut tools);
        let arguments = json!({ "region": " süd", "deep": { "on": true } });
        let got = headers.of(
            "tools/call",
            &json!({ "name": "query", "arguments": arguments }),
        );
        let mut got: Vec<_> = got
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        got.sort();
        assert_eq!(
            got,
            [
                "mcp-method: tools/call",
                "mcp-name: query",
                "mcp-param-on: true",
                "mcp-param-region: =?base64?IHPDvGQ=?=",
            ]
        );
    }

    #[test]
    fn a_tool_with_an_invalid_mark_is_left_out() {
        let property = |schema: Value| json!({ "properties": { "p": schema } });
        for schema in [
            json!({ "x-mcp-header": "Root", "properties": {} }),
            property(json!({ "type": "string", "x-mcp-header": "" })),
            property(json!({ "type": "string", "x-mcp-header": "a b" })),
            property(json!({ "type": "string", "x-mcp-header": "a\r\nb" })),
            property(json!({ "type": "string", "x-mcp-header": 7 })),
            property(json!({ "type": "object", "x-mcp-header": "O" })),
            property(
                json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "I" } }),
            ),
            json!({ "properties": {
                "p": { "type": "string", "x-mcp-header": "Same" },
                "q": { "type": "string", "x-mcp-header": "same" } } }),
        ] {
            let mut tools = vec![tool("bad", &schema), tool("good", &json!({}))];
            ParameterHeaders::default().learn(&mut tools);
            assert_eq!(tools, [tool("good", &json!({}))], "{schema}");
        }
    }
}
