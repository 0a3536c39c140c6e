//! A schema as models see it: the same meaning with fewer and better known keywords.
//!
//! A schema derived from a Rust type says more than a model needs: type names as titles, `format:
//! "uint64"`, shared types under `$defs`, `null` for every optional type. Clients warn about what
//! they do not know, some providers refuse it, and it costs tokens in every conversation.
//!
//! Only what is shown changes. Calls are checked against the tool's original schema, so exactly the
//! same inputs are accepted. A mounted server's schema is not processed here: it is shown as a
//! person reviewed it.

mod definitions;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use self::definitions::Definitions;

/// The formats of JSON Schema 2020-12. Others are names of Rust's number types, whose limits are
/// in `minimum` and `maximum`.
const KNOWN_FORMATS: [&str; 19] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Keywords that describe a value and refuse none.
const ANNOTATIONS: [&str; 6] = [
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "writeOnly",
];

/// Keywords that are never shown. Definitions that must keep their name are put back.
const NOISE: [&str; 5] = ["$comment", "$defs", "$schema", "definitions", "title"];

/// Keywords whose value is one schema, or in old dialects a list of them.
const HOLD_A_SCHEMA: [&str; 11] = [
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is a list of schemas.
const HOLD_A_LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value is an object of schemas; `properties` is handled separately.
const HOLD_SCHEMAS_BY_NAME: [&str; 2] = ["dependentSchemas", "patternProperties"];

/// Which optional properties are shown without the `null` they also accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HideNull {
    /// All without another default: for a Rust input type, `null` and absence are both `None`.
    Optional,
    /// Those with `default: null`: the author of the schema says that both mean the same.
    DefaultNull,
}

/// The schema as models see it. One that names its parts other than with `$defs` is returned
/// unchanged.
pub(super) fn plain(schema: &Value, hide_null: HideNull) -> Value {
    let Some(definitions) = Definitions::of(schema) else {
        return schema.clone();
    };
    let simplifier = Simplifier {
        definitions: &definitions,
        hide_null,
    };
    let mut shown = schema.clone();
    simplifier.schema(&mut shown, Position::Elsewhere);
    if let Value::Object(fields) = &mut shown {
        for (keyword, mut kept) in definitions.kept() {
            let schemas = kept.values_mut();
            schemas.for_each(|schema| simplifier.schema(schema, Position::Elsewhere));
            fields.insert(keyword.to_owned(), Value::Object(kept));
        }
    }
    shown
}

/// Where in its parent a schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// It is a property that may be left out.
    OptionalProperty,
    Elsewhere,
}

struct Simplifier<'s> {
    definitions: &'s Definitions<'s>,
    hide_null: HideNull,
}

impl Simplifier<'_> {
    fn schema(&self, schema: &mut Value, position: Position) {
        let Value::Object(fields) = schema else {
            return;
        };
        self.unfold(fields);
        if position == Position::OptionalProperty && self.hides_null(fields) {
            hide_null(fields);
            // A choice between `null` and a definition has become that definition.
            self.unfold(fields);
        }
        fields.retain(|keyword, value| !is_noise(keyword, value));
        list_choices(fields);
        split_types(fields);
        self.parts(fields);
    }

    fn parts(&self, fields: &mut Map<String, Value>) {
        let required = required(fields);
        for (keyword, value) in fields.iter_mut() {
            let keyword = keyword.as_str();
            match value {
                Value::Object(properties) if keyword == "properties" => {
                    for (name, property) in properties {
                        let position = if required.contains(name) {
                            Position::Elsewhere
                        } else {
                            Position::OptionalProperty
                        };
                        self.schema(property, position);
                    }
                }
                Value::Object(schemas) if HOLD_SCHEMAS_BY_NAME.contains(&keyword) => {
                    let schemas = schemas.values_mut();
                    schemas.for_each(|schema| self.schema(schema, Position::Elsewhere));
                }
                Value::Array(schemas)
                    if HOLD_A_LIST.contains(&keyword) || HOLD_A_SCHEMA.contains(&keyword) =>
                {
                    let schemas = schemas.iter_mut();
                    schemas.for_each(|schema| self.schema(schema, Position::Elsewhere));
                }
                _ if HOLD_A_SCHEMA.contains(&keyword) => self.schema(value, Position::Elsewhere),
                _ => {}
            }
        }
    }

    /// Replaces references with their definitions, and choices of one with that one, until there
    /// are none left. The annotations next to them take precedence, because they are more specific.
    fn unfold(&self, fields: &mut Map<String, Value>) {
        while let Some(inner) = self.referred(fields).or_else(|| only_choice(fields)) {
            for (keyword, value) in inner {
                fields.entry(keyword).or_insert(value);
            }
        }
    }

    /// Removes the reference and returns its target.
    fn referred(&self, fields: &mut Map<String, Value>) -> Option<Map<String, Value>> {
        let uri = fields.get("$ref").and_then(Value::as_str)?;
        let definition = self.definitions.inlined(uri)?.clone();
        fields.retain(|keyword, _| keyword != "$ref");
        if fields.keys().all(|keyword| refuses_nothing(keyword)) {
            return Some(definition);
        }
        // Both schemas apply here. Merging their keywords could change the meaning of either.
        let all = fields.entry("allOf").or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(Value::Object(definition));
        }
        None
    }

    fn hides_null(&self, fields: &Map<String, Value>) -> bool {
        let default = fields.get("default");
        match self.hide_null {
            HideNull::Optional => default.is_none_or(Value::is_null),
            HideNull::DefaultNull => default.is_some_and(Value::is_null),
        }
    }
}

/// The properties that must be given.
fn required(fields: &Map<String, Value>) -> BTreeSet<String> {
    let names = fields.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn is_noise(keyword: &str, value: &Value) -> bool {
    match (keyword, value) {
        ("format", Value::String(format)) => !KNOWN_FORMATS.contains(&format.as_str()),
        ("default", Value::Null) => true,
        _ => NOISE.contains(&keyword),
    }
}

fn refuses_nothing(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || NOISE.contains(&keyword)
}

/// Removes a choice with one alternative, if nothing else refuses anything, and returns the
/// alternative.
fn only_choice(fields: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let mut others = fields
        .iter()
        .filter(|(keyword, _)| !refuses_nothing(keyword));
    let (keyword, Value::Array(choices)) = others.next()? else {
        return None;
    };
    let ("allOf" | "anyOf" | "oneOf", [Value::Object(chosen)], None) =
        (keyword.as_str(), choices.as_slice(), others.next())
    else {
        return None;
    };
    let chosen = chosen.clone();
    fields.retain(|keyword, _| refuses_nothing(keyword));
    Some(chosen)
}

/// Removes `null` from what a schema accepts, unless it accepts nothing else.
fn hide_null(fields: &mut Map<String, Value>) {
    for (keyword, value) in fields.iter_mut() {
        let Value::Array(all) = value else {
            continue;
        };
        let is_null: fn(&Value) -> bool = match keyword.as_str() {
            "type" => |name| name == "null",
            "enum" => Value::is_null,
            "anyOf" | "oneOf" => |schema| schema.get("type").is_some_and(|name| name == "null"),
            _ => continue,
        };
        if !all.iter().all(is_null) {
            all.retain(|one| !is_null(one));
        }
        if keyword == "type"
            && let [only] = all.as_slice()
        {
            *value = only.clone();
        }
    }
}

/// Turns a choice between individually described strings into an `enum`, which every provider
/// knows, and moves their descriptions into that of the whole.
fn list_choices(fields: &mut Map<String, Value>) {
    let mut choices = ["oneOf", "anyOf"].into_iter();
    let Some(keyword) = choices.find(|keyword| fields.contains_key(*keyword)) else {
        return;
    };
    let says_more = |other: &str| ["const", "enum", "type"].contains(&other);
    if fields.keys().any(|other| says_more(other)) {
        return;
    }
    let branches = fields.get(keyword).and_then(Value::as_array);
    let Some(choices) = branches.and_then(|branches| branches.iter().map(texts).collect()) else {
        return;
    };
    let choices: Vec<Texts> = choices;
    let texts: Vec<String> = choices.iter().flat_map(|it| it.texts.clone()).collect();
    let distinct: BTreeSet<&String> = texts.iter().collect();
    if texts.is_empty() || distinct.len() != texts.len() {
        return;
    }
    let said = fields.get("description").and_then(Value::as_str);
    let lines = said.map(str::to_owned).into_iter();
    let lines: Vec<String> = lines
        .chain(choices.iter().filter_map(Texts::line))
        .collect();
    fields.retain(|other, _| other != keyword);
    fields.insert("type".to_owned(), json!("string"));
    fields.insert("enum".to_owned(), json!(texts));
    if !lines.is_empty() {
        fields.insert("description".to_owned(), json!(lines.join("\n")));
    }
}

/// The strings a value may be, and what they mean.
struct Texts {
    texts: Vec<String>,
    meaning: Option<String>,
}

impl Texts {
    fn line(&self) -> Option<String> {
        let meaning = self.meaning.as_ref()?.replace('\n', " ");
        let texts: Vec<String> = self.texts.iter().map(|text| format!("`{text}`")).collect();
        Some(format!("- {}: {meaning}", texts.join(", ")))
    }
}

/// The strings a schema accepts, if it only lists strings.
fn texts(schema: &Value) -> Option<Texts> {
    let mut texts = Vec::new();
    let mut meaning = None;
    for (keyword, value) in schema.as_object()? {
        match (keyword.as_str(), value) {
            ("const", Value::String(text)) => texts.push(text.clone()),
            ("enum", Value::Array(all)) => {
                for text in all {
                    texts.push(text.as_str()?.to_owned());
                }
            }
            ("description", Value::String(text)) => meaning = Some(text.clone()),
            ("type", Value::String(name)) if name == "string" => {}
            ("title" | "$comment", _) => {}
            _ => return None,
        }
    }
    (!texts.is_empty()).then_some(Texts { texts, meaning })
}

/// Rewrites a list of types as alternatives with one type each: not every provider accepts a list.
fn split_types(fields: &mut Map<String, Value>) {
    if fields.contains_key("anyOf") {
        return;
    }
    let Some(Value::Array(types)) = fields.get("type") else {
        return;
    };
    let branches: Vec<Value> = types.iter().map(|name| json!({ "type": name })).collect();
    fields.retain(|keyword, _| keyword != "type");
    fields.insert("anyOf".to_owned(), Value::Array(branches));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &Value, hide_null: HideNull, expected: &Value) {
        assert_eq!(plain(schema, hide_null), *expected, "{schema}");
    }

    /// Checks how one property of an input is shown.
    fn check_property(property: &Value, expected: &Value) {
        check(
            &json!({"type": "object", "properties": {"p": property}}),
            HideNull::Optional,
            &json!({"type": "object", "properties": {"p": expected}}),
        );
    }

    #[test]
    fn a_number_keeps_its_limits_and_loses_the_name_of_its_type() {
        check_property(
            &json!({"type": "integer", "format": "uint64", "minimum": 0, "default": 3}),
            &json!({"type": "integer", "minimum": 0, "default": 3}),
        );
        let known = json!({"type": "string", "format": "date-time"});
        check_property(&known, &known);
    }

    #[test]
    fn what_may_be_left_out_is_shown_without_null() {
        let schema = json!({"type": "object", "required": ["given"], "properties": {
            "left_out": {"type": ["string", "null"], "description": "d"},
            "null": {"type": ["string", "null"], "default": null},
            "other": {"type": ["string", "null"], "default": "x"},
            "given": {"type": ["string", "null"]},
            "chosen": {"enum": ["a", null], "type": ["string", "null"]},
        }});
        let choice = json!([{"type": "string"}, {"type": "null"}]);
        check(
            &schema,
            HideNull::Optional,
            &json!({"type": "object", "required": ["given"], "properties": {
                "left_out": {"type": "string", "description": "d"},
                "null": {"type": "string"},
                "other": {"anyOf": choice, "default": "x"},
                "given": {"anyOf": choice},
                "chosen": {"enum": ["a"], "type": "string"},
            }}),
        );
        let written = plain(&schema, HideNull::DefaultNull);
        assert_eq!(written["properties"]["left_out"]["anyOf"], choice);
        assert_eq!(written["properties"]["null"], json!({"type": "string"}));
    }

    #[test]
    fn definitions_stand_where_they_are_referred_to() {
        check(
            &json!({
                "$defs": {
                    "Point": {"title": "Point", "type": "object", "description": "A point.",
                        "properties": {"x": {"$ref": "#/$defs/Length"}}},
                    "Length": {"type": "integer", "format": "uint32", "minimum": 0},
                },
                "type": "object",
                "properties": {
                    "from": {"$ref": "#/$defs/Point", "description": "Where it starts."},
                    "to": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]},
                    "step": {"$ref": "#/$defs/Length", "maximum": 9},
                },
            }),
            HideNull::Optional,
            &json!({
                "type": "object",
                "properties": {
                    "from": {"type": "object", "description": "Where it starts.",
                        "properties": {"x": {"type": "integer", "minimum": 0}}},
                    "to": {"type": "object", "description": "A point.",
                        "properties": {"x": {"type": "integer", "minimum": 0}}},
                    "step": {"maximum": 9, "allOf": [{"type": "integer", "minimum": 0}]},
                },
            }),
        );
    }

    #[test]
    fn a_definition_that_leads_back_to_itself_stays() {
        check(
            &json!({
                "$defs": {
                    "Tree": {"title": "Tree", "type": "object", "properties": {
                        "size": {"$ref": "#/$defs/Size"},
                        "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                    }},
                    "Size": {"type": "integer", "format": "uint"},
                },
                "type": "object",
                "properties": {"root": {"$ref": "#/$defs/Tree"}, "again": {"$ref": "#"}},
            }),
            HideNull::Optional,
            &json!({
                "$defs": {
                    "Tree": {"type": "object", "properties": {
                        "size": {"type": "integer"},
                        "left": {"$ref": "#/$defs/Tree"},
                    }},
                },
                "type": "object",
                "properties": {"root": {"$ref": "#/$defs/Tree"}, "again": {"$ref": "#"}},
            }),
        );
    }

    #[test]
    fn described_texts_become_a_list_that_is_described() {
        let choice = json!([
            {"const": "path", "type": "string", "description": "By path,\nwhich sorts."},
            {"enum": ["size", "age"], "type": "string"},
        ]);
        check_property(
            &json!({"oneOf": choice, "description": "The order."}),
            &json!({"type": "string", "enum": ["path", "size", "age"],
                "description": "The order.\n- `path`: By path, which sorts."}),
        );
        let objects = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}},
            {"const": "b"},
        ]});
        check_property(&objects, &objects);
    }

    #[test]
    fn parameters_called_like_keywords_are_parameters() {
        let schema = json!({"type": "object", "properties": {
            "title": {"type": "string"},
            "format": {"type": "string", "default": "uint64"},
            "default": {"type": "string", "enum": ["title"]},
            "$defs": {"type": "string"},
        }});
        check(&schema, HideNull::Optional, &schema);
    }

    #[test]
    fn a_schema_with_other_names_is_shown_as_it_is() {
        for part in [
            json!({"$ref": "#/properties/b"}),
            json!({"$anchor": "a", "title": "A"}),
            json!({"$id": "https://example.com/a", "title": "A"}),
        ] {
            let schema = json!({"type": "object", "properties": {"a": part, "b": {"title": "B"}}});
            check(&schema, HideNull::Optional, &schema);
        }
    }

    #[test]
    fn a_schema_that_would_grow_without_bound_keeps_its_references() {
        let doubling = |next: String| json!({"prefixItems": [{"$ref": next}, {"$ref": next}]});
        let long = |next: String| json!({"items": {"$ref": next}});
        let chains: [(usize, &dyn Fn(String) -> Value); 2] = [(20, &doubling), (200, &long)];
        for (length, link) in chains {
            let mut definitions = Map::new();
            for index in 0..length {
                let next = format!("#/$defs/d{}", index + 1);
                definitions.insert(format!("d{index}"), link(next));
            }
            definitions.insert(format!("d{length}"), json!({"type": "string"}));
            let schema = json!({"$defs": definitions, "type": "object",
                "properties": {"p": {"$ref": "#/$defs/d0"}}});
            check(&schema, HideNull::Optional, &schema);
        }
    }

    /// Apart from `null` in optional places, the shown schema accepts and refuses the same values.
    #[test]
    fn what_is_shown_means_what_is_checked() {
        let schema = json!({
            "$defs": {
                "Order": {"oneOf": [{"const": "path", "type": "string", "description": "d"},
                    {"const": "size", "type": "string"}]},
                "Tree": {"type": "object", "additionalProperties": false, "required": ["order"],
                    "properties": {
                        "order": {"$ref": "#/$defs/Order", "description": "o"},
                        "next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]}}},
            },
            "type": "object",
            "additionalProperties": false,
            "required": ["n"],
            "properties": {
                "n": {"type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255},
                "tree": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": null},
                "small": {"$ref": "#/$defs/Order", "maxLength": 4},
            },
        });
        let shown = plain(&schema, HideNull::Optional);
        let [checked, shown] = [&schema, &shown].map(|it| jsonschema::validator_for(it).unwrap());
        for (input, fits) in [
            (json!({"n": 0}), true),
            (json!({"n": null}), true),
            (json!({"n": -1}), false),
            (json!({"n": 256}), false),
            (json!({"n": 1.5}), false),
            (json!({"n": 1, "tree": {"order": "path"}}), true),
            (json!({"n": 1, "tree": {"order": "age"}}), false),
            (
                json!({"n": 1, "tree": {"order": "path", "next": {"order": "size"}}}),
                true,
            ),
            (
                json!({"n": 1, "tree": {"order": "path", "next": {"order": 1}}}),
                false,
            ),
            (
                json!({"n": 1, "tree": {"order": "path", "other": 1}}),
                false,
            ),
            (json!({"n": 1, "small": "size"}), true),
            (json!({"n": 1, "small": "other"}), false),
            (json!({}), false),
        ] {
            assert_eq!(checked.is_valid(&input), fits, "checked: {input}");
            assert_eq!(shown.is_valid(&input), fits, "shown: {input}");
        }
    }
}
