//! Values on their way to and from SQLite.

use haft_contract::{ErrorKind, ops::OpsError};
use rusqlite::types::{Value as Stored, ValueRef};
use serde_json::{Number, Value};

/// A parameter.
pub(super) fn bound(value: &Value) -> Result<Stored, OpsError> {
    Ok(match value {
        Value::Null => Stored::Null,
        Value::Bool(yes) => Stored::Integer(i64::from(*yes)),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Stored::Integer(integer),
            (None, Some(real)) => Stored::Real(real),
            (None, None) => {
                return Err(OpsError::new(
                    ErrorKind::InvalidInput,
                    format!("the number {number} is too large"),
                ));
            }
        },
        Value::String(text) => Stored::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Stored::Text(value.to_string()),
    })
}

/// A value of a row.
pub(super) fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::from(integer),
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            let hex = bytes.iter().map(|byte| format!("{byte:02x}"));
            Value::String(format!("\\x{}", hex.collect::<String>()))
        }
    }
}
