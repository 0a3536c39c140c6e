//! Takes a kept change back, in one transaction: rows that are still what the change left are locked and
//! get their former values, and each is read once more before the commit.

use haft_contract::ops::{
    KeepRows, KeptValue, OpsError, PutBackRows, PutBackRun, RowChange, RowsPutBack,
};
use mysql_async::{Conn, Error, Params, Value, prelude::Queryable as _};

use super::{
    MariaDbSource,
    failure::failed,
    keep_rows::EXACT,
    row_table::{RowTable, TRIGGERED},
    row_values::{self, RowLock, placed},
    session::TransactionUse,
    session_counts::SessionCounts,
};
use crate::{
    halt::Halt,
    kept_rows::{CHANGED_NOW, NO_LIMIT, NOT_EXACT, cannot, kind_of},
    row_comparison::{RowSteps, RowsByKey, all, are_back, compare, keys},
    sql::{ChangeKind, ChangedTable},
};

/// A row that another of the same table must go before, or come before.
const REFERENCES: [u16; 2] = [1451, 1452];

impl MariaDbSource {
    /// Puts rows back, or says which would be.
    pub(crate) async fn put_back(
        &self,
        request: &PutBackRows<'_>,
        keeper: &mut dyn KeepRows,
        halt: &Halt,
    ) -> Result<RowsPutBack, OpsError> {
        let change = request.change;
        let (purpose, lock) = match request.run {
            PutBackRun::ForReal => (TransactionUse::Writes, RowLock::Changed),
            PutBackRun::Dry => (TransactionUse::Reads, RowLock::None),
        };
        let for_real = request.run == PutBackRun::ForReal;
        let mut backend = self.begin(purpose, halt).await?;
        let run = async {
            let conn = backend.conn()?;
            let exact = conn.query_drop(EXACT).await;
            exact.map_err(|error| failed(&error))?;
            let table = self.table_of(conn, change).await?;
            let now = rows_now(conn, &table, (change, &all(change)), lock).await?;
            let found = compare(change, &now);
            if for_real && !found.restored.is_empty() {
                self.restore(conn, &table, change, &found.restored).await?;
                keeper.keep(change.inverse(&found.restored)).await?;
            }
            Ok::<RowsPutBack, OpsError>(found)
        };
        let found = tokio::select! {
            biased;
            found = run => found,
            stop = halt.reached() => Err(stop),
        };
        match found {
            Ok(found) if !for_real || found.restored.is_empty() => {
                backend.roll_back().await;
                Ok(found)
            }
            found => backend.settle(found, halt).await,
        }
    }

    /// The table as it is now, if it still has what the change needs.
    async fn table_of(&self, conn: &mut Conn, change: &RowChange) -> Result<RowTable, OpsError> {
        let there_is_none = || cannot(&format!("there is no table `{}`", change.table));
        let exact = self.own_table(conn, &change.table).await?;
        let exact = exact.ok_or_else(there_is_none)?;
        let kind = kind_of(change, str::to_lowercase);
        let table = self.row_table(conn, &exact, &kind).await?;
        let mut table = table.map_err(|why| cannot(&why))?;
        table.kept.as_kept(change, |column| &column.name)?;
        Ok(table)
    }

    /// Gives the rows at these places their former values. Nobody else changes them meanwhile.
    async fn restore(
        &self,
        conn: &mut Conn,
        table: &RowTable,
        change: &RowChange,
        places: &[usize],
    ) -> Result<(), OpsError> {
        let steps = RowSteps::of(change, places);
        let none = Vec::new();
        let (key, columns) = (&table.kept.key, &table.kept.columns);
        let of_key = |place: usize| -> Vec<Value> {
            let row = change.rows.get(place);
            row.map_or_else(Vec::new, |row| placed(key, &row.key).collect())
        };
        let former = |place: usize| -> Vec<Value> {
            let row = change.rows.get(place);
            let before = row.and_then(|row| row.before.as_ref()).unwrap_or(&none);
            placed(columns, before).collect()
        };
        let set = columns.iter().map(|column| column.name.to_lowercase());
        for (places, kind) in [
            (&steps.remove, ChangeKind::Delete),
            (&steps.update, ChangeKind::Update(set.collect())),
            (&steps.insert, ChangeKind::Insert),
        ] {
            if !places.is_empty() {
                let own = ChangedTable {
                    schema: change.schema.clone(),
                    table: change.table.clone(),
                    called: change.table.clone(),
                    kind,
                };
                self.check_follows(conn, &own).await?;
            }
        }
        let before = SessionCounts::of(conn).await?;
        let mut failures = run_each(conn, &table.delete(), &steps.remove, of_key).await?;
        let update = |place: usize| former(place).into_iter().chain(of_key(place)).collect();
        failures += run_each(conn, &table.update(), &steps.update, update).await?;
        failures += run_each(conn, &table.insert(), &steps.insert, former).await?;
        let counts = before.since(conn).await?;
        if counts.triggers > 0 {
            return Err(cannot(&format!(
                "`{}`: {TRIGGERED}, so nothing was put back",
                change.table
            )));
        }
        // What failed was counted, too.
        let written = counts.written.saturating_sub(failures);
        if written != places.len() as u64 {
            return Err(cannot(&format!(
                "the server would have written {written} rows instead of {}, so nothing was put back",
                places.len()
            )));
        }
        let now = rows_now(conn, table, (change, places), RowLock::None).await?;
        if !are_back(change, places, &now) {
            return Err(cannot(NOT_EXACT));
        }
        Ok(())
    }
}

async fn rows_now(
    conn: &mut Conn,
    table: &RowTable,
    (change, places): (&RowChange, &[usize]),
    lock: RowLock,
) -> Result<RowsByKey, OpsError> {
    let keys: Vec<Vec<KeptValue>> = keys(change, places);
    let now = row_values::read(conn, table, &keys, (NO_LIMIT, lock)).await?;
    now.map_err(|why| cannot(&why))
}

/// Runs a statement for each of these rows, again and again for those that others of the table are still
/// in the way of. Returns how often it failed.
async fn run_each(
    conn: &mut Conn,
    statement: &str,
    places: &[usize],
    values: impl Fn(usize) -> Vec<Value>,
) -> Result<u64, OpsError> {
    let mut failures = 0_u64;
    if places.is_empty() {
        return Ok(failures);
    }
    let prepared = conn.prep(statement).await;
    let prepared = prepared.map_err(|error| failed(&error))?;
    let mut left = places.to_vec();
    while !left.is_empty() {
        let mut again = Vec::new();
        let mut last = None;
        for place in &left {
            let run = conn.exec_drop(&prepared, Params::Positional(values(*place)));
            match run.await {
                Ok(()) if conn.affected_rows() == 1 => {}
                Ok(()) => return Err(cannot(CHANGED_NOW)),
                Err(Error::Server(said)) if REFERENCES.contains(&said.code) => {
                    failures = failures.saturating_add(1);
                    again.push(*place);
                    last = Some(Error::Server(said));
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        if again.len() == left.len()
            && let Some(error) = last
        {
            return Err(failed(&error));
        }
        left = again;
    }
    Ok(failures)
}
