//! Arguments that the operator has fixed: taken out of the schema that a caller sees, refused from a
//! caller, and added before the input is checked and planned. So plans, questions and the record
//! have the whole input, and rules are about the whole input.

use haft_contract::{ErrorKind, ToolError};
use jsonschema::ValidationError;
use serde_json::{Map, Value};

/// Who wrote the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenBy {
    /// Whoever made the call.
    Caller,
    /// A hook, which starts from the whole input and may leave in it what is fixed.
    Hook,
}

/// A schema without the fixed arguments.
pub(crate) fn leave_out(schema: &mut Value, fixed: &Map<String, Value>) {
    if fixed.is_empty() {
        return;
    }
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| !fixed.contains_key(name));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| fixed.contains_key(name)));
    }
}

/// Adds the fixed arguments to what was written, which must not contain them.
pub(crate) fn add(
    input: &mut Map<String, Value>,
    fixed: &Map<String, Value>,
    by: WrittenBy,
) -> Result<(), ToolError> {
    for (name, value) in fixed {
        match input.get(name) {
            None => {}
            Some(written) if by == WrittenBy::Hook && written == value => {}
            Some(_) => {
                return Err(ToolError::invalid_input(format!(
                    "`{name}` is not an argument of this tool"
                ))
                .at(format!("/{name}"))
                .hint("leave it out"));
            }
        }
        input.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// Fails if a fixed argument is what does not fit: then no caller can do anything about it.
pub(crate) fn check<'e>(
    mistakes: impl Iterator<Item = ValidationError<'e>>,
    fixed: &Map<String, Value>,
) -> Result<(), ToolError> {
    if fixed.is_empty() {
        return Ok(());
    }
    for mistake in mistakes {
        let place = mistake.instance_path().to_string();
        let name = place.split('/').nth(1).unwrap_or_default();
        if fixed.contains_key(name) {
            let message = format!(
                "the operator fixed the argument `{name}` to a value that the tool does not take"
            );
            return Err(ToolError::new(ErrorKind::Unavailable, message).hint(
                "this is a mistake in the configuration: `arguments` of the tool in haft.toml",
            ));
        }
    }
    Ok(())
}
