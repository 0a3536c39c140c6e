//! An OpenAPI description: its version, its operations by `operationId`, and its local references.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::OpenApiError;

/// How many references may lead to each other.
const MAX_HOPS: usize = 16;

/// How many bytes of schemas are copied into tools, all together: a small description can refer to one large
/// schema from everywhere.
const MAX_COPIED: usize = 1024 * 1024;

/// How many operations an error lists.
const MAX_LISTED: usize = 20;

/// The methods that operations have.
const METHODS: [&str; 8] = [
    "get", "put", "post", "delete", "options", "head", "patch", "trace",
];

/// A description.
pub(super) struct Document<'d> {
    whole: &'d Value,
    /// How many bytes may still be copied.
    left: Cell<usize>,
    /// Whether schemas are those of OpenAPI 3.0, which differ from JSON Schema.
    pub(super) is_3_0: bool,
}

/// An operation, and where it is.
pub(super) struct FoundOperation<'d> {
    /// The path, with its places.
    pub(super) path: &'d str,
    /// The method in lower case.
    pub(super) method: &'d str,
    pub(super) operation: &'d Map<String, Value>,
    /// What all operations of the path have in common.
    pub(super) common: &'d Map<String, Value>,
}

impl<'d> Document<'d> {
    pub(super) fn read(whole: &'d Value) -> Result<Self, OpenApiError> {
        let version = whole.get("openapi").and_then(Value::as_str);
        let hint = "give a description in OpenAPI 3.0 or 3.1";
        match version {
            Some(version) if version.starts_with("3.0.") => Ok(Self {
                whole,
                left: Cell::new(MAX_COPIED),
                is_3_0: true,
            }),
            Some(version) if version.starts_with("3.1.") => Ok(Self {
                whole,
                left: Cell::new(MAX_COPIED),
                is_3_0: false,
            }),
            Some(version) => {
                let version: String = version.chars().take(20).collect();
                Err(OpenApiError::new(
                    format!("OpenAPI {} is not read", shown(&version)),
                    hint,
                ))
            }
            None if whole.get("swagger").is_some() => {
                Err(OpenApiError::new("Swagger 2.0 is not read", hint))
            }
            None => Err(OpenApiError::new("it is not an OpenAPI description", hint)),
        }
    }

    /// Fails if there is no room for so many bytes more.
    pub(super) fn make_room(&self, bytes: usize) -> Result<(), OpenApiError> {
        let left = self.left.get().checked_sub(bytes).ok_or_else(|| {
            OpenApiError::unsupported(format!(
                "the schemas of these operations have more than {MAX_COPIED} bytes"
            ))
        })?;
        self.left.set(left);
        Ok(())
    }

    /// A value of the whole.
    pub(super) fn get(&self, name: &str) -> Option<&'d Value> {
        self.whole.get(name)
    }

    /// The operation with this id.
    pub(super) fn operation(&self, id: &str) -> Result<FoundOperation<'d>, OpenApiError> {
        let mut found = None;
        let mut ids = Vec::new();
        for (path, item) in object(self.get("paths")) {
            let item = self.resolved(item)?;
            let Some(common) = item.as_object() else {
                continue;
            };
            for method in METHODS {
                let Some(Value::Object(operation)) = common.get(method) else {
                    continue;
                };
                let its = operation.get("operationId").and_then(Value::as_str);
                ids.extend(its);
                if its != Some(id) {
                    continue;
                }
                if found.is_some() {
                    return Err(OpenApiError::new(
                        "it is there twice",
                        "correct the description",
                    ));
                }
                found = Some(FoundOperation {
                    path,
                    method,
                    operation,
                    common,
                });
            }
        }
        found.ok_or_else(|| {
            let more = ids.len().saturating_sub(MAX_LISTED);
            ids.sort_unstable();
            let listed: Vec<String> = ids.iter().take(MAX_LISTED).map(|id| shown(id)).collect();
            let hint = match (listed.is_empty(), more) {
                (true, _) => "no operation of the description has an `operationId`".to_owned(),
                (false, 0) => format!("it has {}", listed.join(", ")),
                (false, more) => format!("it has {} and {more} more", listed.join(", ")),
            };
            OpenApiError::new("the description does not have it", hint)
        })
    }

    /// A value, or what its `$ref` leads to.
    pub(super) fn resolved(&self, value: &'d Value) -> Result<&'d Value, OpenApiError> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            match value.get("$ref") {
                None => return Ok(value),
                Some(Value::String(reference)) => value = self.referenced(reference)?,
                Some(_) => return Err(OpenApiError::unsupported("a `$ref` in it is not a text")),
            }
        }
        Err(OpenApiError::unsupported("a `$ref` in it leads in circles"))
    }

    /// What a reference leads to within the description.
    pub(super) fn referenced(&self, reference: &str) -> Result<&'d Value, OpenApiError> {
        let shown = shown(reference);
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(OpenApiError::unsupported(format!(
                "{shown} is outside the description, and nothing else is read"
            )));
        };
        let decoded = pointer.replace("%7B", "{").replace("%7D", "}");
        let found = self.whole.pointer(&decoded);
        found.ok_or_else(|| OpenApiError::unsupported(format!("{shown} leads nowhere")))
    }
}

/// About how many bytes a value is as text.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 2).sum::<usize>() + 2,
        Value::Object(fields) => {
            let fields = fields.iter();
            fields
                .map(|(name, field)| name.len() + size(field) + 6)
                .sum::<usize>()
                + 2
        }
    }
}

/// A word of the description, for a message.
pub(super) fn shown(text: &str) -> String {
    let text: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    format!("`{text}`")
}

/// The fields of a value; none if it is not an object.
pub(super) fn object(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flatten()
}

/// The items of a value; none if it is not a list.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
