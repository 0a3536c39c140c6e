//! The JSON Schema of the arguments: an object, with a place for each of them. What is wrong with it is
//! found when the configuration is read, not when a model first calls the tool.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// The most arguments.
const MAX_ARGUMENTS: usize = 64;

/// Where an argument stands, which decides what it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArgumentPlace {
    /// In the path: it must be there, as text or a number.
    Path,
    /// In the query: a text, a number, or a list where it is the whole value.
    Query,
    /// Beside other text in a query.
    QueryPart,
    /// In a header.
    Header,
    /// In the body: anything.
    Body,
}

/// The schema as it is shown to models: what is written, and no other arguments.
pub(super) fn checked(
    written: Option<Value>,
    used: &BTreeSet<(&str, ArgumentPlace)>,
) -> Result<Value, String> {
    let mut schema = match written {
        None => Map::from_iter([("type".to_owned(), json!("object"))]),
        Some(Value::Object(schema)) => schema,
        Some(_) => return Err("`input` must be a table with a JSON Schema".to_owned()),
    };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("`input` must have `type = \"object\"`".to_owned());
    }
    schema
        .entry("additionalProperties")
        .or_insert(Value::Bool(false));
    let none = Map::new();
    let properties = match schema.get("properties") {
        None => &none,
        Some(Value::Object(properties)) => properties,
        Some(_) => return Err("`input.properties` must be a table".to_owned()),
    };
    if properties.len() > MAX_ARGUMENTS {
        return Err(format!("`input` has more than {MAX_ARGUMENTS} arguments"));
    }
    for (name, property) in properties {
        if !property.is_object() && !property.is_boolean() {
            return Err(format!("`input.properties.{name}` must be a JSON Schema"));
        }
        if !used.iter().any(|(argument, _)| argument == name) {
            return Err(format!(
                "the argument `{name}` is used nowhere; write `{{{name}}}` where it belongs, or take it out \
                 of `input`"
            ));
        }
    }
    let required = required(&schema)?;
    if let Some(name) = required
        .iter()
        .find(|name| !properties.contains_key(**name))
    {
        return Err(format!(
            "`input.required` names `{name}`, which is not among `input.properties`"
        ));
    }
    for (name, place) in used {
        let Some(property) = properties.get(*name) else {
            return Err(format!(
                "`{{{name}}}` is not an argument; add `{name}` to `input.properties`"
            ));
        };
        if *place == ArgumentPlace::Path && !required.contains(name) {
            return Err(format!(
                "the path needs `{name}`; add it to `input.required`"
            ));
        }
        if let Some(kind) = misfit(property, *place) {
            return Err(format!(
                "the argument `{name}` is of type `{kind}`, which fits only in the body{}",
                match place {
                    ArgumentPlace::Query | ArgumentPlace::QueryPart if kind == "array" =>
                        " or as the whole value of a query parameter",
                    _ => "",
                }
            ));
        }
    }
    Ok(Value::Object(schema))
}

fn required(schema: &Map<String, Value>) -> Result<BTreeSet<&str>, String> {
    let wrong = || "`input.required` must be a list of names".to_owned();
    match schema.get("required") {
        None => Ok(BTreeSet::new()),
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().ok_or_else(wrong));
            names.collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// The type of an argument that cannot stand where it does, as far as its schema says so.
fn misfit(property: &Value, place: ArgumentPlace) -> Option<&str> {
    let kind = property.get("type").and_then(Value::as_str)?;
    let fits = match kind {
        "array" => matches!(place, ArgumentPlace::Query | ArgumentPlace::Body),
        "object" => place == ArgumentPlace::Body,
        _ => true,
    };
    (!fits).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: Value, used: &[(&str, ArgumentPlace)], expect: &str) {
        let used = used.iter().copied().collect();
        let said = checked(Some(written.clone()), &used).unwrap_err();
        assert!(said.contains(expect), "{written}: {said}");
    }

    #[test]
    fn each_argument_has_a_place_and_fits_it() {
        let used = BTreeSet::from([("id", ArgumentPlace::Path), ("tag", ArgumentPlace::Query)]);
        let written = json!({"type": "object", "required": ["id"], "properties":
            {"id": {"type": "integer"}, "tag": {"type": "array"}}});
        let schema = checked(Some(written), &used).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        let none = checked(None, &BTreeSet::new()).unwrap();
        assert_eq!(
            none,
            json!({"type": "object", "additionalProperties": false})
        );
    }

    #[test]
    fn what_is_wrong_with_a_schema_is_told() {
        use ArgumentPlace::{Body, Header, Path, Query, QueryPart};
        let with = |property: Value| json!({"type": "object", "required": ["a"], "properties": {"a": property}});
        check(json!("object"), &[], "must be a table");
        check(json!({"type": "array"}), &[], "`type = \"object\"`");
        check(
            json!({"type": "object", "properties": 1}),
            &[],
            "must be a table",
        );
        check(with(json!(1)), &[("a", Body)], "`input.properties.a`");
        check(with(json!({})), &[], "`a` is used nowhere");
        check(
            json!({"type": "object", "required": "a"}),
            &[],
            "must be a list of names",
        );
        check(
            json!({"type": "object", "required": ["b"]}),
            &[],
            "names `b`, which is not among",
        );
        check(
            with(json!({})),
            &[("a", Body), ("b", Body)],
            "`{b}` is not an argument",
        );
        check(
            json!({"type": "object", "properties": {"a": {}}}),
            &[("a", Path)],
            "the path needs `a`",
        );
        for (kind, place) in [
            ("object", Path),
            ("array", Path),
            ("array", Header),
            ("object", Query),
            ("array", QueryPart),
        ] {
            check(
                with(json!({"type": kind})),
                &[("a", place)],
                "fits only in the body",
            );
        }
        let many: Map<String, Value> = (0..70).map(|n| (format!("a{n}"), json!({}))).collect();
        check(
            json!({"type": "object", "properties": many}),
            &[],
            "more than 64 arguments",
        );
    }
}
