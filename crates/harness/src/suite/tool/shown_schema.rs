//! Which keywords a schema shown to a model may use: those of JSON Schema 2020-12 that Anthropic,
//! OpenAI and Google accept in a tool's parameters. `title`, `$defs` and `$ref` are not allowed,
//! because they cost tokens and tell a model nothing it needs.

use serde_json::Value;

/// Fails with the path of the first keyword that is not allowed.
pub(super) fn check(schema: &Value, at: &str) {
    let Value::Object(fields) = schema else {
        assert!(schema.is_boolean(), "{at} is not a schema: {schema}");
        return;
    };
    for (keyword, value) in fields {
        let at = format!("{at}/{keyword}");
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    check(property, &format!("{at}/{name}"));
                }
            }
            ("items" | "additionalProperties", schema) => check(schema, &at),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    check(schema, &format!("{at}/{index}"));
                }
            }
            ("type", Value::String(_)) => {}
            ("type", types) => panic!("{at} is not one type: {types}"),
            ("default", Value::Null) => panic!("{at} says nothing"),
            ("format", format) => {
                let known = format.as_str().is_some_and(|name| FORMATS.contains(&name));
                assert!(known, "{at} is unknown: {format}");
            }
            (keyword, _) => assert!(KEYWORDS.contains(&keyword), "{at} does not belong there"),
        }
    }
}

/// Keywords that hold no schema.
const KEYWORDS: [&str; 17] = [
    "const",
    "default",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "uniqueItems",
];

/// The formats that all of them accept.
const FORMATS: [&str; 9] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "time",
    "uuid",
];
