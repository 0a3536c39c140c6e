//! How much work a schema can cause. A schema of a few lines can refer to itself so that checking
//! one value takes longer than the age of the universe, or never ends.

use std::collections::HashMap;

use serde_json::Value;

/// How many schemas may have to be checked for one value, not counting its parts.
const MAX_WORK: u64 = 100_000;

/// How long a chain of references and combinations may be.
const MAX_DEPTH: usize = 256;

/// Keywords whose schemas apply to the same value as their parent schema.
const IN_PLACE: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "$ref",
];

/// Why checking a value against a schema could take too long, if it could.
pub(super) fn excessive(schema: &Value) -> Option<&'static str> {
    let mut work = Work {
        root: schema,
        known: HashMap::new(),
    };
    let mut left = vec![schema];
    while let Some(at) = left.pop() {
        match work.of(at, 0) {
            Some(total) if total <= MAX_WORK => {}
            Some(_) => return Some("its input schema multiplies itself without bound"),
            None => return Some("its input schema refers to itself without end"),
        }
        match at {
            Value::Object(object) => left.extend(object.values()),
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

struct Work<'a> {
    root: &'a Value,
    /// The cost of each schema, by address; `None` while it is being computed.
    known: HashMap<*const Value, Option<u64>>,
}

impl<'a> Work<'a> {
    /// What checking one value against this schema costs; `None` if it never ends, or effectively
    /// never.
    fn of(&mut self, schema: &'a Value, depth: usize) -> Option<u64> {
        let Value::Object(object) = schema else {
            return Some(1);
        };
        if depth > MAX_DEPTH {
            return None;
        }
        let key = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.known.insert(key, None);
        let mut total: u64 = 1;
        for keyword in IN_PLACE {
            let Some(value) = object.get(keyword) else {
                continue;
            };
            let parts: Vec<&'a Value> = match (keyword, value) {
                ("$ref", Value::String(uri)) => self.target(uri).into_iter().collect(),
                ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => items.iter().collect(),
                ("dependentSchemas", Value::Object(schemas)) => schemas.values().collect(),
                (_, value) => vec![value],
            };
            for part in parts {
                total = total.saturating_add(self.of(part, depth + 1)?);
            }
        }
        self.known.insert(key, Some(total));
        Some(total)
    }

    /// The target of a reference within the schema.
    fn target(&self, uri: &str) -> Option<&'a Value> {
        let pointer = uri.strip_prefix('#')?;
        self.root.pointer(pointer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mc_07_a_schema_that_multiplies_itself_is_refused() {
        let mut schemas = serde_json::Map::new();
        for level in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
            schemas.insert(format!("a{level}"), json!({ "allOf": [next, next] }));
        }
        schemas.insert("a40".to_owned(), json!({ "type": "string" }));
        let schema = json!({ "type": "object", "$defs": schemas,
            "properties": { "p": { "$ref": "#/$defs/a0" } } });
        assert!(excessive(&schema).unwrap().contains("multiplies"));
    }

    #[test]
    fn mc_07_a_schema_that_never_ends_is_refused() {
        let schema = json!({ "type": "object", "$defs": {
            "a": { "anyOf": [{ "$ref": "#/$defs/b" }] },
            "b": { "not": { "$ref": "#/$defs/a" } } } });
        assert!(excessive(&schema).unwrap().contains("without end"));
    }

    #[test]
    fn a_tree_may_hold_trees() {
        let schema = json!({ "type": "object", "$defs": {
            "tree": { "type": "object", "properties": {
                "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" },
                "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } } } } },
            "properties": { "root": { "$ref": "#/$defs/tree" } } });
        assert_eq!(excessive(&schema), None);
    }
}
