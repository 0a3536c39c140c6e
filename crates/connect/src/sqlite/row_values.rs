//! Reads rows by their keys, each value with the kind of storage it has.

use haft_contract::ops::{KeptRowsLimit, KeptValue, OpsError};
use rusqlite::{
    Connection,
    types::{ToSqlOutput, Value as Stored, ValueRef},
};

use super::{failed, row_table::RowTable};
use crate::{kept_rows::TOO_LARGE, row_comparison::RowsByKey};

/// What a value costs besides its bytes.
const VALUE_BYTES: u64 = size_of::<KeptValue>() as u64;

/// A value as it is stored; none of a text that is not one.
pub(super) fn kept(value: ValueRef<'_>) -> Option<KeptValue> {
    Some(match value {
        ValueRef::Null => KeptValue::Null,
        ValueRef::Integer(integer) => KeptValue::Integer(integer),
        ValueRef::Real(real) => KeptValue::Real(real.to_bits()),
        ValueRef::Text(text) => KeptValue::Text(str::from_utf8(text).ok()?.to_owned()),
        ValueRef::Blob(bytes) => KeptValue::Blob(bytes.to_vec()),
    })
}

/// The same for a statement.
pub(super) fn bound(value: &KeptValue) -> ToSqlOutput<'_> {
    match value {
        KeptValue::Null => ToSqlOutput::Owned(Stored::Null),
        KeptValue::Integer(integer) => ToSqlOutput::Owned(Stored::Integer(*integer)),
        KeptValue::Real(bits) => ToSqlOutput::Owned(Stored::Real(f64::from_bits(*bits))),
        KeptValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        KeptValue::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
    }
}

/// Rows of these keys, or why they are not kept.
pub(super) fn read(
    connection: &Connection,
    table: &RowTable,
    keys: &[Vec<KeptValue>],
    limit: KeptRowsLimit,
) -> Result<Result<RowsByKey, String>, OpsError> {
    let error = |error: rusqlite::Error| failed(&error);
    let mut statement = connection.prepare(&table.select()).map_err(error)?;
    let mut read = RowsByKey::new();
    let mut bytes = 0_u64;
    for key in keys {
        if key.contains(&KeptValue::Null) {
            return Ok(Err("a row has nothing in its primary key".to_owned()));
        }
        for (place, value) in key.iter().enumerate() {
            let bound = statement.raw_bind_parameter(place + 1, bound(value));
            bound.map_err(error)?;
        }
        let mut rows = statement.raw_query();
        let Some(row) = rows.next().map_err(error)? else {
            continue;
        };
        let mut values = Vec::with_capacity(table.kept.columns.len());
        for place in 0..table.kept.columns.len() {
            let found = row.get_ref(place).map_err(error)?;
            bytes = bytes.saturating_add(VALUE_BYTES + super::value::size(found) as u64);
            if bytes > limit.bytes {
                return Ok(Err(TOO_LARGE.to_owned()));
            }
            let Some(value) = kept(found) else {
                return Ok(Err("a text is not in UTF-8".to_owned()));
            };
            values.push(value);
        }
        read.insert(key.clone(), values);
    }
    Ok(Ok(read))
}
