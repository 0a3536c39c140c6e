//! Values on their way to and from the server.

use mysql_async::{Column, Value as ServerValue, consts::ColumnType};
use serde_json::{Number, Value};

/// The character set of columns that have none: what is in them are bytes.
const NO_CHARACTERS: u16 = 63;

/// What stands before bytes that are shown as hexadecimal digits.
const HEX: &str = "0x";

/// A parameter. The server turns a text into what the place wants.
pub(super) fn parameter(value: &Value) -> ServerValue {
    match value {
        Value::Null => ServerValue::NULL,
        Value::Bool(yes) => ServerValue::Int(i64::from(*yes)),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => ServerValue::Int(number),
            (None, Some(number), _) => ServerValue::UInt(number),
            (None, None, Some(number)) => ServerValue::Double(number),
            (None, None, None) => ServerValue::Bytes(number.to_string().into_bytes()),
        },
        Value::String(text) => ServerValue::Bytes(text.clone().into_bytes()),
        Value::Array(_) | Value::Object(_) => ServerValue::Bytes(value.to_string().into_bytes()),
    }
}

/// How a column's values become JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// As the server writes it. A decimal too: JSON's numbers would round it.
    Text,
    /// Bytes, and places on a map, which the server sends as bytes.
    Bytes,
    Bits,
    Date,
    /// Date and time, with so many decimals.
    DateTime(u8),
    Time(u8),
}

impl ValueKind {
    pub(super) fn of(column: &Column) -> Self {
        let bytes = column.character_set() == NO_CHARACTERS;
        match column.column_type() {
            ColumnType::MYSQL_TYPE_GEOMETRY => Self::Bytes,
            ColumnType::MYSQL_TYPE_BIT => Self::Bits,
            ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => Self::Date,
            ColumnType::MYSQL_TYPE_TIMESTAMP
            | ColumnType::MYSQL_TYPE_TIMESTAMP2
            | ColumnType::MYSQL_TYPE_DATETIME
            | ColumnType::MYSQL_TYPE_DATETIME2 => Self::DateTime(column.decimals()),
            ColumnType::MYSQL_TYPE_TIME | ColumnType::MYSQL_TYPE_TIME2 => {
                Self::Time(column.decimals())
            }
            ColumnType::MYSQL_TYPE_TINY_BLOB
            | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
            | ColumnType::MYSQL_TYPE_LONG_BLOB
            | ColumnType::MYSQL_TYPE_BLOB
            | ColumnType::MYSQL_TYPE_VAR_STRING
            | ColumnType::MYSQL_TYPE_VARCHAR
            | ColumnType::MYSQL_TYPE_STRING
                if bytes =>
            {
                Self::Bytes
            }
            // Numbers say themselves what they are.
            _ => Self::Text,
        }
    }

    /// The size of a value as it is handed on.
    pub(super) fn size(self, value: &ServerValue) -> usize {
        match value {
            ServerValue::Bytes(bytes) if self == Self::Bytes => HEX.len() + 2 * bytes.len(),
            ServerValue::Bytes(bytes) => bytes.len(),
            ServerValue::NULL
            | ServerValue::Int(_)
            | ServerValue::UInt(_)
            | ServerValue::Float(_)
            | ServerValue::Double(_)
            | ServerValue::Date(..)
            | ServerValue::Time(..) => size_of::<ServerValue>(),
        }
    }

    pub(super) fn value(self, value: &ServerValue) -> Value {
        match value {
            ServerValue::NULL => Value::Null,
            ServerValue::Int(number) => Value::from(*number),
            ServerValue::UInt(number) => Value::from(*number),
            // The shortest digits that mean this number, and not those of the longer type.
            ServerValue::Float(number) => float(number.to_string().parse().unwrap_or(f64::NAN)),
            ServerValue::Double(number) => float(*number),
            ServerValue::Bytes(bytes) => match (self, std::str::from_utf8(bytes)) {
                (Self::Bits, _) if bytes.len() <= size_of::<u64>() => {
                    let number = bytes
                        .iter()
                        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                    Value::from(number)
                }
                (Self::Bytes | Self::Bits, _) | (_, Err(_)) => Value::String(hex(bytes)),
                (_, Ok(text)) => Value::String(text.to_owned()),
            },
            ServerValue::Date(year, month, day, hour, minute, second, micros) => {
                let date = format!("{year:04}-{month:02}-{day:02}");
                Value::String(match self {
                    Self::Date => date,
                    kind => format!(
                        "{date} {hour:02}:{minute:02}:{second:02}{}",
                        kind.fraction(*micros)
                    ),
                })
            }
            ServerValue::Time(negative, days, hours, minute, second, micros) => {
                let sign = if *negative { "-" } else { "" };
                let hours = u64::from(*days) * 24 + u64::from(*hours);
                Value::String(format!(
                    "{sign}{hours:02}:{minute:02}:{second:02}{}",
                    self.fraction(*micros)
                ))
            }
        }
    }

    /// The decimals of a second, as many as the column has.
    fn fraction(self, micros: u32) -> String {
        let (Self::DateTime(decimals) | Self::Time(decimals)) = self else {
            return String::new();
        };
        let digits = format!("{micros:06}");
        // More than six are said of expressions whose number of decimals is open.
        match (decimals, micros) {
            (1..=6, _) => format!(
                ".{}",
                digits.get(..usize::from(decimals)).unwrap_or(&digits)
            ),
            (0, _) | (_, 0) => String::new(),
            (_, _) => format!(".{digits}"),
        }
    }
}

fn float(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let mut text = String::with_capacity(HEX.len() + 2 * bytes.len());
    text.push_str(HEX);
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.extend(DIGITS.get(usize::from(half)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_what_they_are() {
        let bytes = |text: &[u8]| ServerValue::Bytes(text.to_vec());
        let noon = ServerValue::Date(2026, 1, 2, 12, 0, 5, 120_000);
        for (kind, value, expected) in [
            (ValueKind::Text, bytes(b"1.50"), json!("1.50")),
            (ValueKind::Text, bytes(b"\xff\x00"), json!("0xff00")),
            (ValueKind::Bytes, bytes(b"ab"), json!("0x6162")),
            (ValueKind::Bits, bytes(b"\x01\x02"), json!(258)),
            (ValueKind::Text, ServerValue::Float(0.1), json!(0.1)),
            (
                ValueKind::Text,
                ServerValue::UInt(u64::MAX),
                json!(u64::MAX),
            ),
            (ValueKind::Date, noon.clone(), json!("2026-01-02")),
            (
                ValueKind::DateTime(0),
                noon.clone(),
                json!("2026-01-02 12:00:05"),
            ),
            (
                ValueKind::DateTime(3),
                noon.clone(),
                json!("2026-01-02 12:00:05.120"),
            ),
            (
                ValueKind::DateTime(31),
                noon,
                json!("2026-01-02 12:00:05.120000"),
            ),
            (
                ValueKind::Time(0),
                ServerValue::Time(true, 2, 3, 4, 5, 0),
                json!("-51:04:05"),
            ),
        ] {
            assert_eq!(kind.value(&value), expected);
        }
        assert_eq!(ValueKind::Bytes.size(&bytes(b"abc")), 8);
        assert_eq!(parameter(&json!({"a": 1})), bytes(b"{\"a\":1}"));
        assert_eq!(parameter(&json!(true)), ServerValue::Int(1));
    }
}
