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

/// How many bytes the text of a value will have.
pub(super) fn size(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        ValueRef::Text(text) => text.len(),
        ValueRef::Blob(bytes) => bytes.len() * 2 + 2,
    }
}

/// A value of a row.
pub(super) fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::from(integer),
        ValueRef::Real(real) => Number::from_f64(real).map_or(Value::Null, Value::Number),
        ValueRef::Text(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            let mut hex = String::with_capacity(bytes.len() * 2 + 2);
            hex.push_str("\\x");
            for byte in bytes {
                for half in [byte >> 4, byte & 0xf] {
                    hex.extend(char::from_digit(u32::from(half), 16));
                }
            }
            Value::String(hex)
        }
    }
}
