//! Takes a kept change back, in one transaction: rows that are still what the change left get their
//! former values, and each is read once more before the commit.

use haft_contract::{
    ErrorKind,
    ops::{KeepRows, KeptValue, OpsError, PutBackRows, PutBackRun, RowChange, RowsPutBack},
};
use rusqlite::Connection;
use tokio::sync::mpsc;

use super::{
    SqliteSource,
    connection::OpenedFor,
    failed,
    keep_rows::{RowOffers, keeping},
    row_table::RowTable,
    row_values::{self, bound},
};
use crate::{
    halt::Halt,
    kept_rows::{NO_LIMIT, NOT_EXACT, cannot, kind_of},
    row_comparison::{RowSteps, RowsByKey, all, are_back, compare, differing_columns, keys},
    statement_slot::StatementSlot,
};

impl SqliteSource {
    /// Puts rows back, or says which would be.
    pub(crate) async fn put_back(
        &self,
        request: &PutBackRows<'_>,
        keeper: &mut dyn KeepRows,
        call: (&Halt, &StatementSlot),
    ) -> Result<RowsPutBack, OpsError> {
        let change = request.change.clone();
        let (offers, arriving) = mpsc::channel(1);
        let offers = RowOffers {
            limit: NO_LIMIT,
            offers,
        };
        let for_real = request.run == PutBackRun::ForReal;
        let purpose = if for_real {
            OpenedFor::Writing
        } else {
            OpenedFor::SqlReading
        };
        let working = self.work(purpose, call, move |opened| {
            let connection = &opened.connection;
            let table = table_of(connection, &change)?;
            let now = rows_now(connection, &table, &change, &all(&change))?;
            let found = compare(&change, &now);
            if for_real && !found.restored.is_empty() {
                restore(connection, &table, &change, &found.restored)?;
                offers.offer(change.inverse(&found.restored))?;
                opened.commit()?;
            }
            Ok(found)
        });
        keeping(working, Some(keeper), arriving).await
    }
}

/// The table as it is now, if it still has what the change needs.
fn table_of(connection: &Connection, change: &RowChange) -> Result<RowTable, OpsError> {
    let kind = kind_of(change, str::to_lowercase);
    let table = RowTable::of(connection, &change.table, &kind)?;
    let mut table = table.map_err(|why| cannot(&why))?;
    table.kept.as_kept(change, String::as_str)?;
    Ok(table)
}

fn rows_now(
    connection: &Connection,
    table: &RowTable,
    change: &RowChange,
    places: &[usize],
) -> Result<RowsByKey, OpsError> {
    let now = row_values::read(connection, table, &keys(change, places), NO_LIMIT)?;
    now.map_err(|why| cannot(&why))
}

/// Gives the rows at these places their former values. Nobody else writes meanwhile.
fn restore(
    connection: &Connection,
    table: &RowTable,
    change: &RowChange,
    places: &[usize],
) -> Result<(), OpsError> {
    let before = connection.total_changes();
    let steps = RowSteps::of(change, places);
    let none = Vec::new();
    run_each(connection, &table.delete(), &steps.remove, |place| {
        change.rows.get(place).map(|row| row.key.iter().collect())
    })?;
    let differing = differing_columns(change, &steps.update);
    run_each(
        connection,
        &table.update(&differing),
        &steps.update,
        |place| {
            let row = change.rows.get(place)?;
            let former = row.before.as_ref().unwrap_or(&none);
            let set = differing.iter().filter_map(|column| former.get(*column));
            Some(set.chain(&row.key).collect())
        },
    )?;
    run_each(connection, &table.insert(), &steps.insert, |place| {
        let row = change.rows.get(place)?;
        Some(row.before.as_ref().unwrap_or(&none).iter().collect())
    })?;
    let changed = connection.total_changes().saturating_sub(before);
    if changed != places.len() as u64 {
        return Err(OpsError::new(
            ErrorKind::Conflict,
            format!(
                "with its cascades this would have changed {changed} rows instead of {}, so nothing \
                 was put back",
                places.len()
            ),
        ));
    }
    let now = rows_now(connection, table, change, places)?;
    if !are_back(change, places, &now) {
        return Err(cannot(NOT_EXACT));
    }
    Ok(())
}

/// Runs a statement for each of these rows.
fn run_each<'v>(
    connection: &Connection,
    statement: &str,
    places: &[usize],
    values: impl Fn(usize) -> Option<Vec<&'v KeptValue>>,
) -> Result<(), OpsError> {
    let error = |error: rusqlite::Error| failed(&error);
    if places.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare(statement).map_err(error)?;
    for place in places {
        for (at, value) in values(*place).unwrap_or_default().into_iter().enumerate() {
            let bound = statement.raw_bind_parameter(at + 1, bound(value));
            bound.map_err(error)?;
        }
        statement.raw_execute().map_err(error)?;
    }
    Ok(())
}
