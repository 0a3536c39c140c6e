//! Accepts what models commonly get slightly wrong: a parameter under another name, `"3"` for 3, a
//! list as JSON text. Every rewrite is recorded in the outcome.

use std::fmt;

use haft_contract::ToolSpec;
use serde_json::{Map, Value};

/// How deep coercion looks into an input.
const MAX_DEPTH: usize = 8;

/// Rewrites an input in place and returns what it changed. The names are those of
/// [`text_parameters`].
pub(crate) fn coerce(
    spec: &ToolSpec,
    schema: &Value,
    text_parameters: &[String],
    input: &mut Map<String, Value>,
) -> Vec<String> {
    let mut changes = Vec::new();
    for alias in &spec.parameter_aliases {
        if input.contains_key(alias.parameter) || has_property(schema, alias.alias) {
            continue;
        }
        let Some(value) = input.remove(alias.alias) else {
            continue;
        };
        let value = match alias.scale {
            None => value,
            Some(_) if is_larger(&value, alias.largest) => value,
            Some(scale) => scaled(value, scale),
        };
        changes.push(format!("`{}` read as `{}`", alias.alias, alias.parameter));
        input.insert(alias.parameter.to_owned(), value);
    }
    if let Some(reshape) = spec.reshape
        && let Some(change) = reshape(input)
    {
        changes.push(change.to_owned());
    }
    // Most inputs are as they should be, and looking them up in the schema takes longer than this.
    if !is_plain(input, text_parameters) {
        coerce_object(
            schema,
            schema,
            input,
            InputLocation::Root,
            MAX_DEPTH,
            &mut changes,
        );
    }
    changes
}

/// The parameters for which a schema asks for text and nothing else.
pub(crate) fn text_parameters(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .filter(|(_, property)| wants_text(property))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Whether an input holds only values that are never rewritten.
fn is_plain(input: &Map<String, Value>, text_parameters: &[String]) -> bool {
    input.iter().all(|(name, value)| match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(_) => text_parameters.contains(name),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    })
}

/// A location in the input. Most inputs need no change, so it is formatted only when one does.
#[derive(Clone, Copy)]
enum InputLocation<'a> {
    Root,
    Name(&'a InputLocation<'a>, &'a str),
    Index(&'a InputLocation<'a>, usize),
}

impl fmt::Display for InputLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Name(parent, name) => write!(f, "{parent}/{name}"),
            Self::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

fn has_property(schema: &Value, name: &str) -> bool {
    schema
        .get("properties")
        .and_then(|properties| properties.get(name))
        .is_some()
}

/// A number, also if it is written as text.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_larger(value: &Value, largest: Option<u32>) -> bool {
    let beyond = |largest: u32| number(value).is_some_and(|number| number > f64::from(largest));
    largest.is_some_and(beyond)
}

fn scaled(value: Value, scale: u32) -> Value {
    let Some(number) = number(&value).map(|number| number * f64::from(scale)) else {
        return value;
    };
    if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number within the range just checked"
        )]
        return Value::from(number as u64);
    }
    Value::from(number)
}

fn coerce_object(
    root: &Value,
    schema: &Value,
    input: &mut Map<String, Value>,
    at: InputLocation<'_>,
    depth: usize,
    changes: &mut Vec<String>,
) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        let Some(value) = input.get_mut(name) else {
            continue;
        };
        let here = InputLocation::Name(&at, name);
        if value.is_null() {
            let required = schema.get("required").and_then(Value::as_array);
            let optional = required.is_none_or(|names| !names.iter().any(|n| n == name.as_str()));
            if optional && !types(root, property).contains(&"null") {
                input.remove(name);
                changes.push(format!("`{here}` was null and is left out"));
                continue;
            }
        }
        coerce_value(root, property, value, here, depth, changes);
    }
}

fn coerce_value(
    root: &Value,
    schema: &Value,
    value: &mut Value,
    at: InputLocation<'_>,
    depth: usize,
    changes: &mut Vec<String>,
) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => return,
        Value::String(_) if wants_text(schema) => return,
        Value::String(_) | Value::Array(_) | Value::Object(_) => {}
    }
    let schema = resolved(root, schema);
    if let Some(better) = better(value, root, schema) {
        changes.push(format!("`{at}` was text and is read as {}", kind(&better)));
        *value = better;
    }
    match value {
        Value::Object(object) => coerce_object(root, schema, object, at, depth, changes),
        Value::Array(items) => {
            if let Some(item_schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    let here = InputLocation::Index(&at, index);
                    coerce_value(root, item_schema, item, here, depth, changes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a schema asks for text and nothing else, as most do.
fn wants_text(schema: &Value) -> bool {
    let wanted = schema.get("type").and_then(Value::as_str);
    wanted == Some("string")
}

/// The value that the text represents, if the schema does not accept text.
fn better(value: &Value, root: &Value, schema: &Value) -> Option<Value> {
    let Value::String(text) = value else {
        return None;
    };
    let wanted = types(root, schema);
    if wanted.is_empty() || wanted.contains(&"string") {
        return None;
    }
    let parsed: Value = serde_json::from_str(text.trim()).ok()?;
    let fits = match &parsed {
        Value::Number(number) => {
            wanted.contains(&"number")
                || (wanted.contains(&"integer") && (number.is_u64() || number.is_i64()))
        }
        Value::Bool(_) => wanted.contains(&"boolean"),
        Value::Array(_) => wanted.contains(&"array"),
        Value::Object(_) => wanted.contains(&"object"),
        Value::Null | Value::String(_) => false,
    };
    fits.then_some(parsed)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The types a schema names, through one level of `anyOf`.
fn types<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let schema = resolved(root, schema);
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => Vec::new(),
        None => schema
            .get("anyOf")
            .and_then(Value::as_array)
            .map(|options| {
                let kinds = options.iter().map(|option| resolved(root, option));
                kinds
                    .filter_map(|option| option.get("type").and_then(Value::as_str))
                    .collect()
            })
            .unwrap_or_default(),
    }
}

/// Follows one local `$ref`.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|uri| root.pointer(uri.trim_start_matches('#')))
        .unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use haft_contract::spec::ParameterAlias;
    use serde_json::json;

    use super::*;

    #[test]
    fn common_slips_are_read_as_meant_and_recorded() {
        let spec = ToolSpec::new("t", "d").parameter_aliases(&[
            ParameterAlias::new("file_path", "path"),
            ParameterAlias::scaled("timeout", "timeout_ms", 1000),
        ]);
        let schema = json!({"type": "object", "properties": {
            "path": {"type": "string"}, "timeout_ms": {"type": ["integer", "null"]},
            "limit": {"type": "integer"}, "all": {"type": "boolean"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
        }, "required": ["path"],
        "$defs": {"Edit": {"type": "object", "properties": {"line": {"type": "integer"}}}}});
        let mut input = json!({"file_path": "3", "timeout": 1.5, "limit": "3", "all": "true",
            "edits": "[{\"line\": \"7\"}]"});
        let texts = text_parameters(&schema);
        assert_eq!(texts, ["path"]);
        let changes = coerce(&spec, &schema, &texts, input.as_object_mut().unwrap());
        assert_eq!(
            input,
            json!({"path": "3", "timeout_ms": 1500, "limit": 3, "all": true, "edits": [{"line": 7}]})
        );
        assert_eq!(changes.len(), 6, "{changes:?}");
        // One value that is not plain is enough for a closer look at all.
        for slip in [
            json!({"limit": "3"}),
            json!({"all": null}),
            json!({"edits": "[]"}),
        ] {
            let mut input = slip.clone();
            input["path"] = json!("a");
            let changes = coerce(&spec, &schema, &texts, input.as_object_mut().unwrap());
            assert_eq!(changes.len(), 1, "{slip}: {changes:?}");
        }
        // Seconds and milliseconds under one name are told apart by their size.
        let spec = ToolSpec::new("t", "d").parameter_aliases(&[ParameterAlias::scaled(
            "timeout",
            "timeout_ms",
            1000,
        )
        .up_to(600)]);
        for (written, meant) in [
            (json!(30), json!(30_000)),
            (json!(600), json!(600_000)),
            (json!(601), json!(601)),
            (json!(120_000), json!(120_000)),
            (json!("120000"), json!(120_000)),
        ] {
            let mut input = json!({ "path": "a", "timeout": written });
            coerce(&spec, &schema, &texts, input.as_object_mut().unwrap());
            assert_eq!(input["timeout_ms"], meant, "{written}");
        }
        let mut plain = json!({"path": "3", "limit": 3, "all": true, "unknown": 1});
        let before = plain.clone();
        assert!(coerce(&spec, &schema, &texts, plain.as_object_mut().unwrap()).is_empty());
        assert_eq!(plain, before);
    }
}
