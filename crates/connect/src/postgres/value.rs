//! Values on their way to and from the server, as text: the server knows how each type is written.

use std::error::Error;

use serde_json::{Number, Value};
use tokio_postgres::types::{
    Format, FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked,
};

/// A parameter in the words of its type.
#[derive(Debug)]
pub(super) struct TextParameter(Option<String>);

impl TextParameter {
    pub(super) fn new(value: &Value) -> Self {
        Self(match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Some(value.to_string())
            }
        })
    }
}

impl ToSql for TextParameter {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// The bytes of a JSON value, whatever they are to the driver.
pub(super) struct JsonText(pub(super) String);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSON || *kind == Type::TEXT
    }
}

/// The longest JSON that becomes values rather than a text: as values it takes many times the room.
const MAX_PARSED_JSON_BYTES: usize = 1024 * 1024;

/// How a column's values become JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Bool,
    Integer,
    Float,
    Json,
    /// As the server writes it. A `numeric` too: JSON's numbers would round it.
    Text,
}

impl ValueKind {
    pub(super) fn of(kind: &Type) -> Self {
        match *kind {
            Type::BOOL => Self::Bool,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => Self::Integer,
            Type::FLOAT4 | Type::FLOAT8 => Self::Float,
            Type::JSON | Type::JSONB => Self::Json,
            _ => Self::Text,
        }
    }

    pub(super) fn value(self, text: Option<&str>) -> Value {
        let Some(text) = text else {
            return Value::Null;
        };
        let parsed = match self {
            Self::Bool => Some(Value::Bool(text == "t")),
            Self::Integer => text.parse::<i64>().ok().map(Value::from),
            Self::Float => text
                .parse::<f64>()
                .ok()
                .and_then(Number::from_f64)
                .map(Value::Number),
            Self::Json if text.len() > MAX_PARSED_JSON_BYTES => None,
            Self::Json => serde_json::from_str(text).ok(),
            Self::Text => None,
        };
        parsed.unwrap_or_else(|| Value::String(text.to_owned()))
    }
}
