//! Reads rows by their keys, each value as the server writes it.

use haft_contract::ops::{KeptRowsLimit, KeptValue, OpsError};
use serde_json::Value;
use tokio_postgres::Client;

use super::{
    failure::failed,
    row_table::{RowColumn, RowTable, identifier},
    value::TextParameter,
};
use crate::{batch::MAX_VALUE_BYTES, kept_rows::TOO_LARGE, row_comparison::RowsByKey};

/// What the server writes depends on these. Set after a statement has run, and for its transaction
/// only: they must not change what it does.
pub(super) const EXACT: &str = "SET LOCAL TimeZone = 'UTC'; SET LOCAL extra_float_digits = 3; \
    SET LOCAL lc_monetary = 'C'";

/// A value as the type's own output function writes it. A cast to `text` may be another function, and a
/// composite value of nulls is not null.
pub(super) fn written(value: &str) -> String {
    format!(
        "CASE WHEN {value} IS NOT DISTINCT FROM NULL THEN NULL \
         ELSE pg_catalog.format('%s', {value}) END"
    )
}

/// The tables' column behind its alias.
pub(super) fn of(alias: &str, column: &RowColumn) -> String {
    format!("{alias}.{}", identifier(&column.name))
}

/// Rows of these keys, of which there are not more than may be kept.
pub(super) async fn read(
    client: &Client,
    table: &RowTable,
    keys: &[Vec<KeptValue>],
    limit: KeptRowsLimit,
) -> Result<Result<RowsByKey, String>, OpsError> {
    let error = |error: tokio_postgres::Error| failed(&error);
    let values: Vec<String> = table
        .kept
        .key
        .iter()
        .chain(&table.kept.columns)
        .map(|column| written(&of("t", column)))
        .collect();
    let from = format!(
        "FROM {} AS t JOIN {} ON {}",
        table.written(),
        wanted_keys(table, 1),
        same_key(table)
    );
    let size: Vec<String> = values
        .iter()
        .map(|value| format!("coalesce(pg_catalog.octet_length({value}), 0)"))
        .collect();
    let sizes = format!(
        "SELECT coalesce(sum(size), 0)::bigint, coalesce(max(size), 0)::bigint \
         FROM (SELECT ({})::bigint AS size {from}) AS sizes",
        size.join(" + ")
    );
    let parameters = key_parameters(table, keys);
    let found = query(client, &sizes, &parameters).await?;
    let number = |place: usize| -> Result<u64, OpsError> {
        let number: Option<i64> = match found.first() {
            Some(row) => Some(row.try_get(place).map_err(error)?),
            None => None,
        };
        Ok(number
            .and_then(|number| u64::try_from(number).ok())
            .unwrap_or(u64::MAX))
    };
    if number(0)? > limit.bytes || number(1)? > MAX_VALUE_BYTES as u64 {
        return Ok(Err(TOO_LARGE.to_owned()));
    }
    let rows = format!("SELECT {} {from}", values.join(", "));
    let mut read = RowsByKey::new();
    for row in query(client, &rows, &parameters).await? {
        let mut values = Vec::with_capacity(row.len());
        for place in 0..row.len() {
            let text: Option<String> = row.try_get(place).map_err(error)?;
            values.push(text.map_or(KeptValue::Null, KeptValue::Text));
        }
        let held = values.split_off(table.kept.key.len());
        read.insert(values, held);
    }
    Ok(Ok(read))
}

/// Runs a query of which the parameters are texts.
pub(super) async fn query(
    client: &Client,
    statement: &str,
    parameters: &[TextParameter],
) -> Result<Vec<tokio_postgres::Row>, OpsError> {
    let prepared = client.prepare(statement).await;
    let prepared = prepared.map_err(|error| failed(&error))?;
    let parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = parameters
        .iter()
        .map(|parameter| parameter as &(dyn tokio_postgres::types::ToSql + Sync))
        .collect();
    let rows = client.query(&prepared, &parameters).await;
    rows.map_err(|error| failed(&error))
}

/// The keys as a table `wanted`, from the parameter of this number on.
pub(super) fn wanted_keys(table: &RowTable, first: usize) -> String {
    let arrays: Vec<String> = table
        .kept
        .key
        .iter()
        .enumerate()
        .map(|(place, column)| format!("${}::{}[]", first + place, column.kind))
        .collect();
    let names: Vec<String> = (0..table.kept.key.len())
        .map(|place| format!("k{place}"))
        .collect();
    format!(
        "unnest({}) AS wanted({})",
        arrays.join(", "),
        names.join(", ")
    )
}

/// Whether a row of `t` is one of `wanted`.
pub(super) fn same_key(table: &RowTable) -> String {
    let same: Vec<String> = table
        .kept
        .key
        .iter()
        .enumerate()
        .map(|(place, column)| format!("{} = wanted.k{place}", of("t", column)))
        .collect();
    same.join(" AND ")
}

/// The keys, an array for each column.
pub(super) fn key_parameters(table: &RowTable, keys: &[Vec<KeptValue>]) -> Vec<TextParameter> {
    let columns = 0..table.kept.key.len();
    columns
        .map(|place| array(keys.iter().map(|key| key.get(place))))
        .collect()
}

/// An array in the server's own writing.
pub(super) fn array<'v>(values: impl Iterator<Item = Option<&'v KeptValue>>) -> TextParameter {
    let mut text = String::from("{");
    for (place, value) in values.enumerate() {
        if place > 0 {
            text.push(',');
        }
        match value {
            Some(KeptValue::Text(value)) => {
                text.push('"');
                for c in value.chars() {
                    if matches!(c, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(c);
                }
                text.push('"');
            }
            // A server writes every value as a text.
            Some(
                KeptValue::Null | KeptValue::Integer(_) | KeptValue::Real(_) | KeptValue::Blob(_),
            )
            | None => text.push_str("NULL"),
        }
    }
    text.push('}');
    TextParameter::new(&Value::String(text))
}
