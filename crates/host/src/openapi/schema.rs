//! A schema of a description as JSON Schema on its own: references resolved in place, OpenAPI's own words
//! translated or left out, everything else refused by name.

use haft_contract::displayed::is_deceptive;
use serde_json::{Map, Value, json};

use super::{
    OpenApiError,
    document::{Document, shown, size},
};

/// How deep schemas can be nested, references counted.
const MAX_DEPTH: usize = 12;

/// How many schemas one argument can be made of.
const MAX_PARTS: usize = 2_000;

/// What a schema counts for, however small it is.
const PART_BYTES: usize = 32;

/// The longest description that is kept, in characters.
const MAX_WORDS: usize = 1_000;

/// Words that stay as they are.
const KEPT: [&str; 18] = [
    "const",
    "default",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
    "uniqueItems",
];

/// Words that say nothing about which values fit.
const LEFT_OUT: [&str; 10] = [
    "$comment",
    "contentEncoding",
    "contentMediaType",
    "deprecated",
    "discriminator",
    "example",
    "examples",
    "externalDocs",
    "writeOnly",
    "xml",
];

/// The schema, converted.
pub(super) fn converted(document: &Document<'_>, written: &Value) -> Result<Value, OpenApiError> {
    let mut conversion = Conversion { document, parts: 0 };
    conversion.schema(written, 0)
}

/// What a description says, on a few lines that show whole.
pub(super) fn words(text: &str) -> String {
    let plain = text.chars().map(|c| {
        if c.is_whitespace() && c != '\n' {
            ' '
        } else {
            c
        }
    });
    let plain = plain.filter(|c| *c == '\n' || !is_deceptive(*c));
    let words: String = plain.take(MAX_WORDS).collect();
    words.trim().to_owned()
}

struct Conversion<'d> {
    document: &'d Document<'d>,
    parts: usize,
}

impl Conversion<'_> {
    fn schema(&mut self, written: &Value, depth: usize) -> Result<Value, OpenApiError> {
        self.parts += 1;
        self.document.make_room(PART_BYTES)?;
        if depth > MAX_DEPTH {
            return Err(OpenApiError::unsupported(format!(
                "a schema of it is nested deeper than {MAX_DEPTH}, or refers to itself"
            )));
        }
        if self.parts > MAX_PARTS {
            return Err(OpenApiError::unsupported(format!(
                "a schema of it has more than {MAX_PARTS} parts"
            )));
        }
        let fields = match written {
            Value::Object(fields) => fields,
            Value::Bool(_) => return Ok(written.clone()),
            _ => return Err(OpenApiError::unsupported("a schema of it is not an object")),
        };
        if let Some(reference) = fields.get("$ref") {
            return self.reference(reference, fields, depth);
        }
        let mut schema = Map::new();
        for (word, value) in fields {
            self.word(word, value, &mut schema, depth)?;
        }
        if self.document.is_3_0 {
            translate_3_0(fields, &mut schema);
        }
        Ok(without_null(schema))
    }

    /// What a reference leads to, with the description that stands beside it.
    fn reference(
        &mut self,
        reference: &Value,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<Value, OpenApiError> {
        let reference = reference.as_str().unwrap_or_default();
        let found = self.document.referenced(reference)?;
        let mut schema = self.schema(found, depth + 1)?;
        // OpenAPI 3.0 ignores whatever is beside a reference.
        for (word, value) in fields.iter().filter(|_| !self.document.is_3_0) {
            match (word.as_str(), &mut schema) {
                ("$ref", _) => {}
                ("description" | "title", Value::Object(schema)) => {
                    let said = words(value.as_str().unwrap_or_default());
                    schema.insert(word.clone(), Value::from(said));
                }
                _ => return Err(unknown(&format!("{word} beside $ref"))),
            }
        }
        Ok(schema)
    }

    fn word(
        &mut self,
        word: &str,
        value: &Value,
        schema: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), OpenApiError> {
        if word == "description" || KEPT.contains(&word) {
            self.document.make_room(size(value))?;
        }
        let made = match (word, value) {
            ("description", _) => Value::from(words(value.as_str().unwrap_or_default())),
            ("properties" | "patternProperties", Value::Object(properties)) => {
                let mut made = Map::new();
                for (name, property) in properties {
                    // What a server fills in is nothing that a caller sends.
                    if property.get("readOnly") != Some(&Value::Bool(true)) {
                        self.document.make_room(name.len())?;
                        made.insert(name.clone(), self.schema(property, depth + 1)?);
                    }
                }
                Value::Object(made)
            }
            ("items" | "not" | "additionalProperties", _) => self.schema(value, depth + 1)?,
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => {
                let all = all.iter().map(|one| self.schema(one, depth + 1));
                Value::Array(all.collect::<Result<_, _>>()?)
            }
            ("nullable" | "exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_))
                if self.document.is_3_0 =>
            {
                return Ok(());
            }
            ("exclusiveMinimum" | "exclusiveMaximum", _) => value.clone(),
            ("readOnly", _) => return Ok(()),
            _ if KEPT.contains(&word) => value.clone(),
            _ if LEFT_OUT.contains(&word) || word.starts_with("x-") => return Ok(()),
            _ => return Err(unknown(word)),
        };
        schema.insert(word.to_owned(), made);
        Ok(())
    }
}

/// What OpenAPI 3.0 says in words of its own.
fn translate_3_0(fields: &Map<String, Value>, schema: &mut Map<String, Value>) {
    let is_true = |word: &str| fields.get(word) == Some(&Value::Bool(true));
    for (limit, exclusive) in [
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ] {
        if is_true(exclusive)
            && let Some(value) = schema.remove(limit)
        {
            schema.insert(exclusive.to_owned(), value);
        }
    }
    if is_true("nullable")
        && let Some(Value::String(kind)) = schema.get("type")
    {
        schema.insert("type".to_owned(), json!([kind, "null"]));
    }
}

/// The same schema without `null` as a value, which `haft.toml` cannot say.
fn without_null(mut schema: Map<String, Value>) -> Value {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let names: Option<Vec<String>> = properties.map(|all| all.keys().cloned().collect());
    if let (Some(names), Some(Value::Array(required))) = (names, schema.get_mut("required")) {
        // What was left out cannot be needed.
        required.retain(|name| names.iter().any(|known| name == known));
    }
    let is_nullable = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => true,
    };
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let all = values.len();
        values.retain(|value| !value.is_null());
        let had_null = values.len() < all;
        let values_type = schema.remove("type");
        if had_null || (is_nullable && values_type.as_ref().is_some_and(Value::is_array)) {
            let about = schema.remove("description");
            let either = json!({"anyOf": [Value::Object(schema), {"type": "null"}]});
            return with_description(either, about);
        }
        schema.extend(values_type.map(|kind| ("type".to_owned(), kind)));
    }
    Value::Object(schema)
}

fn with_description(mut schema: Value, about: Option<Value>) -> Value {
    if let (Value::Object(fields), Some(about)) = (&mut schema, about) {
        fields.insert("description".to_owned(), about);
    }
    schema
}

fn unknown(word: &str) -> OpenApiError {
    let word = shown(word);
    OpenApiError::unsupported(format!("a schema of it has {word}, which is not read"))
}
