//! Accepts what models commonly get slightly wrong: a parameter under another name, `"3"` for 3, a
//! list as JSON text, one value for a list of it. Every rewrite is recorded in the outcome.

use std::fmt;

use haft_contract::{ToolError, ToolSpec};
use serde_json::{Map, Value};

use super::{aliases, renamed::RenamedParameters};

/// How deep coercion looks into an input.
const MAX_DEPTH: usize = 8;

/// What was changed in an input.
#[derive(Debug, Default)]
pub(crate) struct CoercedInput {
    /// A sentence for each change.
    pub(crate) changes: Vec<String>,
    /// The parameters that have other names now.
    pub(crate) renamed: RenamedParameters,
}

/// Rewrites an input in place and returns what it changed.
pub(crate) fn coerce(
    spec: &ToolSpec,
    schema: &Value,
    plain: &PlainParameters,
    input: &mut Map<String, Value>,
) -> Result<CoercedInput, ToolError> {
    let mut coerced = CoercedInput::default();
    aliases::rename(&spec.parameter_aliases, schema, input, &mut coerced);
    if let Some(reshape) = spec.reshape {
        let reshaped = reshape(input).map_err(|error| coerced.renamed.as_written(error))?;
        coerced.changes.extend(reshaped);
    }
    // Most inputs are as they should be, and looking them up in the schema takes longer than this.
    if !plain.are_all_of(input) {
        coerce_object(
            schema,
            schema,
            input,
            InputLocation::Root,
            MAX_DEPTH,
            &mut coerced.changes,
        );
    }
    Ok(coerced)
}

/// What of a schema tells apart inputs whose values are never rewritten.
#[derive(Debug)]
pub(crate) struct PlainParameters {
    /// The parameters for which it asks for text and nothing else.
    texts: Vec<String>,
    /// Whether a parameter is a list, which a single number may stand for.
    has_lists: bool,
}

impl PlainParameters {
    /// Of this schema.
    pub(crate) fn of(schema: &Value) -> Self {
        let all = || properties(schema).into_iter().flatten();
        let texts = all().filter(|(_, property)| wants_text(property));
        Self {
            texts: texts.map(|(name, _)| name.clone()).collect(),
            has_lists: all().any(|(_, property)| types(schema, property).contains(&"array")),
        }
    }

    /// Whether an input holds only values that are never rewritten.
    fn are_all_of(&self, input: &Map<String, Value>) -> bool {
        input.iter().all(|(name, value)| match value {
            Value::Bool(_) => !self.has_lists,
            Value::Number(number) => !self.has_lists && !number.is_f64(),
            Value::String(_) => self.texts.contains(name),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        })
    }
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

/// The parameters that a schema of an object names.
pub(super) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn coerce_object(
    root: &Value,
    schema: &Value,
    input: &mut Map<String, Value>,
    at: InputLocation<'_>,
    depth: usize,
    changes: &mut Vec<String>,
) {
    let Some(properties) = properties(schema) else {
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
        Value::Null => return,
        Value::String(_) if wants_text(schema) => return,
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
    let schema = resolved(root, schema);
    if let Some(better) = better(value, root, schema) {
        changes.push(format!("`{at}` was text and is read as {}", kind(&better)));
        *value = better;
    }
    let wanted = types(root, schema);
    if let Some(number) = whole_number(value, &wanted) {
        // Some providers write every number with a fraction, so this is no slip to speak of.
        *value = number;
    }
    if is_single(value, &wanted) {
        *value = Value::Array(vec![value.take()]);
        changes.push(aliases::one_as_list(&at.to_string()));
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

/// `3.0`, where a whole number is wanted.
fn whole_number(value: &Value, wanted: &[&str]) -> Option<Value> {
    let number = value.as_number().filter(|number| number.is_f64())?;
    let wants_whole = wanted.contains(&"integer") && !wanted.contains(&"number");
    wants_whole
        .then(|| aliases::whole(number.as_f64()?))
        .flatten()
}

/// Whether a value is one thing where only a list of them is wanted.
fn is_single(value: &Value, wanted: &[&str]) -> bool {
    let own: &[&str] = match value {
        Value::Null | Value::Array(_) => return false,
        Value::Bool(_) => &["boolean"],
        Value::Number(_) => &["number", "integer"],
        Value::String(_) => &["string"],
        Value::Object(_) => &["object"],
    };
    wanted.contains(&"array") && !own.iter().any(|kind| wanted.contains(kind))
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
pub(super) fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
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
        let plain = PlainParameters::of(&schema);
        assert_eq!(plain.texts, ["path"]);
        let coerced = |spec: &ToolSpec, input: &mut Value| {
            let input = input.as_object_mut().unwrap();
            coerce(spec, &schema, &plain, input).unwrap().changes
        };
        let changes = coerced(&spec, &mut input);
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
            let changes = coerced(&spec, &mut input);
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
            coerced(&spec, &mut input);
            assert_eq!(input["timeout_ms"], meant, "{written}");
        }
        let mut fine = json!({"path": "3", "limit": 3, "all": true, "unknown": 1});
        let before = fine.clone();
        assert!(coerced(&spec, &mut fine).is_empty());
        assert_eq!(fine, before);
        // One value where a list is wanted, and numbers as providers without whole numbers write them.
        let mut single = json!({"path": "3", "limit": 3.0, "edits": {"line": 7.0}});
        assert_eq!(coerced(&spec, &mut single).len(), 1);
        let meant = json!({"path": "3", "limit": 3, "edits": [{"line": 7}]});
        assert_eq!(single.to_string(), meant.to_string());
    }

    #[test]
    fn names_in_lists_are_read_and_remembered_as_written() {
        let spec = ToolSpec::new("t", "d").parameter_aliases(&[
            ParameterAlias::new("around", "before"),
            ParameterAlias::new("around", "after"),
            ParameterAlias::new("oldText", "old").within("edits"),
            ParameterAlias::new("old_string", "old").within("edits"),
        ]);
        let schema = json!({"type": "object", "properties": {
            "before": {"type": "integer"}, "after": {"type": "integer"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
        }, "$defs": {"Edit": {"type": "object", "properties": {
            "old": {"type": "string"}, "all": {"type": "boolean"},
        }}}});
        let plain = PlainParameters::of(&schema);
        for (written, meant, pointer) in [
            (
                json!({"edits": [{"oldText": "a"}]}),
                json!({"edits": [{"old": "a"}]}),
                "/edits/0/oldText",
            ),
            (
                json!({"edits": "[{\"oldText\": \"a\"}]"}),
                json!({"edits": [{"old": "a"}]}),
                "/edits/0/oldText",
            ),
            (
                json!({"edits": {"oldText": "a"}}),
                json!({"edits": [{"old": "a"}]}),
                "/edits/0/oldText",
            ),
            (
                json!({"old_string": "a", "all": true}),
                json!({"edits": [{"old": "a", "all": true}]}),
                "/old_string",
            ),
            (
                json!({"around": 2, "after": 1, "edits": [{"old": "a"}]}),
                json!({"before": 2, "after": 1, "edits": [{"old": "a"}]}),
                "/edits/0/old",
            ),
        ] {
            let mut input = written.clone();
            let coerced = coerce(&spec, &schema, &plain, input.as_object_mut().unwrap()).unwrap();
            assert_eq!(input, meant, "{written}");
            let error = ToolError::invalid_input("`old` is empty").at("/edits/0/old");
            let error = coerced.renamed.as_written(error);
            assert_eq!(error.pointer(), Some(pointer), "{written}");
            let name = pointer.rsplit('/').next().unwrap();
            assert_eq!(error.message(), format!("`{name}` is empty"));
        }
    }
}
