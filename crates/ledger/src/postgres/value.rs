//! Values to and from PostgreSQL, by the type the server wants or has.

use std::error::Error;

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::store::{Cell, Value};

type AnyError = Box<dyn Error + Sync + Send>;

impl ToSql for Value<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, AnyError> {
        match *self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *wanted == Type::INT4 => {
                i32::try_from(number)?.to_sql(wanted, out)
            }
            Value::Integer(number) => number.to_sql(&Type::INT8, out),
            Value::Text(text) => text.to_sql(wanted, out),
            Value::Bytes(bytes) => bytes.to_sql(wanted, out),
        }
    }

    /// The server converts nothing by itself: a statement that wants something else fails as a whole.
    fn accepts(wanted: &Type) -> bool {
        matches!(
            *wanted,
            Type::INT8 | Type::INT4 | Type::TEXT | Type::VARCHAR | Type::BYTEA
        )
    }

    to_sql_checked!();
}

/// One column of many rows, as an array of its type.
pub(super) fn column(
    rows: &[Vec<Value<'_>>],
    index: usize,
    of: &Type,
) -> Box<dyn ToSql + Sync + Send> {
    let values = rows.iter().map(|row| row.get(index).copied());
    match *of {
        Type::BYTEA => {
            let column: Vec<Option<Vec<u8>>> = values
                .map(|value| match value {
                    Some(Value::Bytes(bytes)) => Some(bytes.to_vec()),
                    _ => None,
                })
                .collect();
            Box::new(column)
        }
        Type::INT8 => {
            let column: Vec<Option<i64>> = values
                .map(|value| match value {
                    Some(Value::Integer(number)) => Some(number),
                    _ => None,
                })
                .collect();
            Box::new(column)
        }
        _ => {
            let column: Vec<Option<String>> = values
                .map(|value| match value {
                    Some(Value::Text(text)) => Some(text.to_owned()),
                    _ => None,
                })
                .collect();
            Box::new(column)
        }
    }
}

/// Reads a cell of any type that the ledger's columns have.
pub(super) struct AnyCell(pub(super) Cell);

impl<'a> FromSql<'a> for AnyCell {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, AnyError> {
        Ok(Self(match *of {
            Type::INT8 => Cell::Integer(i64::from_sql(of, raw)?),
            Type::INT4 => Cell::Integer(i32::from_sql(of, raw)?.into()),
            Type::BOOL => Cell::Integer(bool::from_sql(of, raw)?.into()),
            Type::BYTEA => Cell::Bytes(raw.to_vec()),
            _ => Cell::Text(std::str::from_utf8(raw)?.to_owned()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, AnyError> {
        Ok(Self(Cell::Null))
    }

    fn accepts(of: &Type) -> bool {
        matches!(
            *of,
            Type::INT8
                | Type::INT4
                | Type::BOOL
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::VOID
        )
    }
}
