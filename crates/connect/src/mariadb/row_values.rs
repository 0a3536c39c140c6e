//! Reads rows by their keys, each value exactly, and writes the values of statements that put them back.

use haft_contract::ops::{KeptRowsLimit, KeptValue, OpsError};
use mysql_async::{
    Conn, Params, Row, Value,
    prelude::{Queryable as _, StatementLike},
};

use super::{
    failure::failed,
    row_table::{RowColumn, RowTable, RowValueKind},
};
use crate::{batch::MAX_VALUE_BYTES, kept_rows::TOO_LARGE, row_comparison::RowsByKey};

/// How many rows one question asks for.
const KEYS_AT_A_TIME: usize = 100;

/// What a value costs besides its bytes.
const VALUE_BYTES: u64 = size_of::<KeptValue>() as u64;

/// Whether rows that are read stay as they are until the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowLock {
    None,
    Changed,
}

impl RowLock {
    /// What stands behind a query.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Changed => " FOR UPDATE",
        }
    }
}

/// Takes rows, up to a limit.
pub(super) struct RowTaker<'t> {
    table: &'t RowTable,
    limit: KeptRowsLimit,
    bytes: u64,
    count: u64,
    rows: RowsByKey,
    why: Option<String>,
}

impl<'t> RowTaker<'t> {
    pub(super) fn new(table: &'t RowTable, limit: KeptRowsLimit) -> Self {
        Self {
            table,
            limit,
            bytes: 0,
            count: 0,
            rows: RowsByKey::new(),
            why: None,
        }
    }

    /// The expressions of what it takes.
    pub(super) fn read(&self) -> String {
        self.table.read(MAX_VALUE_BYTES)
    }

    /// Runs a statement and takes every row that it returns, one by one.
    pub(super) async fn take_all(
        &mut self,
        conn: &mut Conn,
        statement: impl StatementLike,
        values: Params,
    ) -> Result<(), OpsError> {
        let result = conn.exec_iter(statement, values).await;
        let mut result = result.map_err(|error| failed(&error))?;
        while let Some(row) = result.next().await.map_err(|error| failed(&error))? {
            self.take(&row);
        }
        Ok(())
    }

    /// How many rows it was given.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes one row, unless there are too many or it is too large.
    pub(super) fn take(&mut self, row: &Row) {
        self.count = self.count.saturating_add(1);
        if self.why.is_some() {
            return;
        }
        let kept = &self.table.kept;
        let columns = kept.key.iter().chain(&kept.columns);
        let mut values = Vec::with_capacity(row.len());
        for (place, column) in columns.enumerate() {
            let value = row.as_ref(place).unwrap_or(&Value::NULL);
            self.bytes = self.bytes.saturating_add(VALUE_BYTES + size(value));
            let Some(value) = taken(column, value) else {
                self.why = Some(format!("a value of `{}` could not be read", column.name));
                return;
            };
            values.push(value);
        }
        let is_too_large = !matches!(row.as_ref(values.len()), Some(Value::Int(0)));
        if is_too_large || self.bytes > self.limit.bytes || self.count > self.limit.rows {
            self.why = Some(TOO_LARGE.to_owned());
            return;
        }
        let held = values.split_off(kept.key.len().min(values.len()));
        self.rows.insert(values, held);
    }

    /// The rows, or why they are not kept.
    pub(super) fn taken(self) -> Result<RowsByKey, String> {
        match self.why {
            None => Ok(self.rows),
            Some(why) => Err(why),
        }
    }
}

/// Rows of these keys, or why they are not kept.
pub(super) async fn read(
    conn: &mut Conn,
    table: &RowTable,
    keys: &[Vec<KeptValue>],
    (limit, lock): (KeptRowsLimit, RowLock),
) -> Result<Result<RowsByKey, String>, OpsError> {
    let mut taker = RowTaker::new(table, limit);
    for some in keys.chunks(KEYS_AT_A_TIME) {
        let statement = table.select(MAX_VALUE_BYTES, some.len());
        let statement = format!("{statement}{}", lock.words());
        let values = some.iter().flat_map(|key| placed(&table.kept.key, key));
        let values = Params::Positional(values.collect());
        taker.take_all(conn, statement, values).await?;
    }
    Ok(taker.taken())
}

/// Values for the places of columns.
pub(super) fn placed<'v>(
    columns: &'v [RowColumn],
    values: &'v [KeptValue],
) -> impl Iterator<Item = Value> + 'v {
    let both = columns.iter().zip(values);
    both.map(|(column, value)| match (value, column.kind.as_ref()) {
        (KeptValue::Null, _) => Value::NULL,
        (KeptValue::Integer(number), _) => Value::Int(*number),
        (KeptValue::Real(bits), _) => Value::Double(f64::from_bits(*bits)),
        (KeptValue::Blob(bytes), _) => digits(bytes),
        (KeptValue::Text(text), Some(RowValueKind::Text { .. } | RowValueKind::Bytes)) => {
            digits(text.as_bytes())
        }
        (KeptValue::Text(text), Some(RowValueKind::Integer | RowValueKind::Bits)) => {
            match text.parse() {
                // One that is larger than the others.
                Ok(number) => Value::UInt(number),
                Err(_) => Value::NULL,
            }
        }
        (KeptValue::Text(text), _) => Value::Bytes(text.clone().into_bytes()),
    })
}

/// Bytes as hexadecimal digits.
fn digits(bytes: &[u8]) -> Value {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let digits = halves.filter_map(|half| char::from_digit(u32::from(half), 16));
    Value::Bytes(digits.collect::<String>().into_bytes())
}

/// A value as the server sent it; none if it is not of the kind it was asked for.
fn taken(column: &RowColumn, value: &Value) -> Option<KeptValue> {
    Some(match (value, column.kind.as_ref()?) {
        (Value::NULL, _) => KeptValue::Null,
        (Value::Int(number), RowValueKind::Integer | RowValueKind::Bits) => {
            KeptValue::Integer(*number)
        }
        (Value::UInt(number), RowValueKind::Integer | RowValueKind::Bits) => {
            match i64::try_from(*number) {
                Ok(number) => KeptValue::Integer(number),
                Err(_) => KeptValue::Text(number.to_string()),
            }
        }
        (Value::Float(number), RowValueKind::Real) => KeptValue::Real(f64::from(*number).to_bits()),
        (Value::Double(number), RowValueKind::Real) => KeptValue::Real(number.to_bits()),
        (Value::Bytes(bytes), RowValueKind::Bytes) => KeptValue::Blob(bytes.clone()),
        (Value::Bytes(bytes), RowValueKind::Text { .. }) => match std::str::from_utf8(bytes) {
            Ok(text) => KeptValue::Text(text.to_owned()),
            Err(_) => KeptValue::Blob(bytes.clone()),
        },
        (
            Value::Bytes(bytes),
            RowValueKind::Decimal { .. } | RowValueKind::Instant | RowValueKind::Written,
        ) => KeptValue::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        _ => return None,
    })
}

fn size(value: &Value) -> u64 {
    match value {
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::NULL
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Float(_)
        | Value::Double(_)
        | Value::Date(..)
        | Value::Time(..) => 0,
    }
}
