//! Parameters of other systems' tools that ours do not have: those that change nothing here are left
//! out with a note, those that ask for something else are refused by the name the caller wrote.

use haft_contract::ToolError;
use serde_json::{Map, Value};

/// Takes parameters out that change nothing here, and says so.
pub(crate) fn leave_out(
    input: &mut Map<String, Value>,
    unneeded: &[(&str, &str)],
    notes: &mut Vec<String>,
) {
    for (name, why) in unneeded {
        if input.remove(*name).is_some() {
            notes.push(format!("`{name}` is left out: {why}"));
        }
    }
}

/// Takes a parameter out if it asks for nothing (absent, false, empty, or one of these words);
/// otherwise refuses the call.
pub(crate) fn refuse_unless(
    input: &mut Map<String, Value>,
    name: &str,
    nothing: &[&str],
    hint: &str,
) -> Result<(), ToolError> {
    let asks_nothing = match input.get(name) {
        None => return Ok(()),
        Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::String(word)) => word.is_empty() || nothing.contains(&word.as_str()),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Number(number)) => number.as_u64() == Some(0),
        Some(Value::Bool(true)) => false,
    };
    if asks_nothing {
        input.remove(name);
        return Ok(());
    }
    Err(
        ToolError::invalid_input(format!("`{name}` is not available here"))
            .at(format!("/{name}"))
            .hint(hint),
    )
}
