//! Keeps the rows that a change replaces. What it adds or removes the statement itself returns. Of an
//! `UPDATE` the server returns nothing: its rows are looked for with its own condition and locked, right
//! before it runs, and the number of rows that the server says it changed proves afterwards that they
//! are the ones.

use haft_contract::ops::{DatabaseQuery, KeptRowsLimit, KeptValue, OpsError, RowChange};
use mysql_async::{Conn, Params, prelude::Queryable as _};

use super::{
    MariaDbSource,
    changes::ChangedRows,
    failure::failed,
    row_table::{RowTable, TRIGGERED},
    row_values::{self, RowLock, RowTaker},
    value::parameter,
};
use crate::{
    kept_rows::too_many,
    row_comparison::RowsByKey,
    sql::{ChangeKind, ChangedTable, SqlReading, UpdatedRows},
};

/// Moments are written and looked for in a zone where each is one time of the clock. Nothing of a
/// tool's runs afterwards.
pub(super) const EXACT: &str = "SET SESSION time_zone = '+00:00'";

/// A change whose rows are going to be kept.
pub(super) struct KeptRows<'r> {
    change: &'r ChangedTable,
    table: RowTable,
    limit: KeptRowsLimit,
    /// The rows that were found before an `UPDATE`, or that the statement returned.
    rows: RowsByKey,
}

impl MariaDbSource {
    /// Prepares to keep what a statement changes, or says why that is not possible.
    pub(super) async fn kept_rows<'r>(
        &self,
        conn: &mut Conn,
        (reading, table): (&'r SqlReading, Option<&str>),
        (expected, limit): (u64, KeptRowsLimit),
    ) -> Result<Result<KeptRows<'r>, String>, OpsError> {
        if reading.updated.is_some() && !reading.called.listed.is_empty() {
            return Ok(Err(
                "it calls functions of the source's own, which are not run twice to look for its rows"
                    .to_owned(),
            ));
        }
        if let Some(why) = too_many(expected, limit) {
            return Ok(Err(why));
        }
        let (Some(change), Some(table)) = (&reading.change, table) else {
            return Ok(Err("it changes no table".to_owned()));
        };
        let table = self.row_table(conn, table, &change.kind).await?;
        Ok(table.map(|table| KeptRows {
            change,
            table,
            limit,
            rows: RowsByKey::new(),
        }))
    }
}

impl KeptRows<'_> {
    /// Looks for the rows of an `UPDATE` and locks them. Says why they are not kept if there are more
    /// than it is to change: their number decides, and not this look.
    pub(super) async fn find(
        &mut self,
        conn: &mut Conn,
        (updated, query): (&UpdatedRows, &DatabaseQuery<'_>),
        expected: u64,
    ) -> Result<Result<(), String>, OpsError> {
        let mut taker = RowTaker::new(&self.table, self.limit);
        let condition = updated.condition.as_ref();
        let condition = condition.map(|condition| format!(" WHERE {condition}"));
        let statement = format!(
            "SELECT {} FROM {}{} LIMIT {}{}",
            taker.read(),
            updated.table,
            condition.unwrap_or_default(),
            expected.saturating_add(1),
            RowLock::Changed.words()
        );
        let set = query.parameters.len().saturating_sub(updated.placeholders);
        let values: Vec<_> = query.parameters.iter().skip(set).map(parameter).collect();
        let values = if values.is_empty() {
            Params::Empty
        } else {
            Params::Positional(values)
        };
        taker.take_all(conn, statement, values).await?;
        Ok(taker.taken().map(|rows| self.rows = rows))
    }

    /// The statement, so that it also returns the rows that it adds or removes.
    pub(super) fn telling(&self, statement: &str) -> String {
        let taker = RowTaker::new(&self.table, self.limit);
        format!("{statement} RETURNING {}", taker.read())
    }

    /// Runs the statement that returns its rows, and takes them. Says how many there were, and why they
    /// are not kept if they are not.
    pub(super) async fn run(
        &mut self,
        conn: &mut Conn,
        telling: &mysql_async::Statement,
        parameters: Params,
    ) -> Result<(u64, Result<(), String>), OpsError> {
        let mut taker = RowTaker::new(&self.table, self.limit);
        taker.take_all(conn, telling, parameters).await?;
        let count = taker.count();
        Ok((count, taker.taken().map(|rows| self.rows = rows)))
    }

    /// What is kept of a statement that has run, or why nothing is.
    pub(super) async fn changed(
        self,
        conn: &mut Conn,
        source: &str,
        (changed, triggers): (ChangedRows, u64),
    ) -> Result<Result<RowChange, String>, OpsError> {
        let Self {
            change,
            table,
            limit,
            rows,
        } = self;
        // Also those that a server would not show to the role.
        if triggers > 0 {
            return Ok(Err(format!("`{}`: {TRIGGERED}", change.table)));
        }
        let (before, after) = match change.kind {
            ChangeKind::Insert => (RowsByKey::new(), rows),
            ChangeKind::Delete => (rows, RowsByKey::new()),
            ChangeKind::Update(_) => {
                let exact = conn.query_drop(EXACT).await;
                exact.map_err(|error| failed(&error))?;
                let keys: Vec<Vec<KeptValue>> = rows.keys().cloned().collect();
                let after = row_values::read(conn, &table, &keys, (limit, RowLock::None)).await?;
                let after = match after {
                    Ok(after) => after,
                    Err(why) => return Ok(Err(why)),
                };
                let both = rows
                    .iter()
                    .filter(|(key, held)| after.get(*key) != Some(*held));
                // Nobody else can have changed them: they are locked. So if as many rows differ as the
                // server changed, it changed none but these.
                if both.count() as u64 != changed.differing {
                    return Ok(Err(
                        "the rows that it changed are not all among those that its condition found before"
                            .to_owned(),
                    ));
                }
                (rows, after)
            }
        };
        let told = (source, change);
        let columns = &table.kept;
        Ok(columns.row_change(told, (before, after), changed.found, |column| &column.name))
    }
}
