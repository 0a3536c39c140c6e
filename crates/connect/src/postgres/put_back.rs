//! Takes a kept change back, in one transaction: rows that are still what the change left get their
//! former values, and each is read once more before the commit.

use haft_contract::{
    ErrorKind,
    ops::{KeepRows, KeptValue, OpsError, PutBackRows, PutBackRun, RowChange, RowsPutBack},
};
use tokio_postgres::Client;

use super::{
    PostgresSource,
    backend::lost,
    failure::failed,
    row_table::RowTable,
    row_values::{self, array, of, same_key, written},
    value::TextParameter,
};
use crate::{
    halt::Halt,
    kept_rows::{CHANGED_NOW, NO_LIMIT, NOT_EXACT, cannot, kind_of},
    row_comparison::{RowSteps, RowsByKey, all, are_back, compare, differing_columns, keys},
    sql::{ChangeKind, ChangedTable},
};

impl PostgresSource {
    /// Puts rows back, or says which would be.
    pub(crate) async fn put_back(
        &self,
        request: &PutBackRows<'_>,
        keeper: &mut dyn KeepRows,
        halt: &Halt,
    ) -> Result<RowsPutBack, OpsError> {
        let for_real = request.run == PutBackRun::ForReal;
        let backend = self.begin(Self::purpose(for_real), halt).await?;
        let run = async {
            let client = backend.client()?;
            let exact = client.batch_execute(row_values::EXACT).await;
            exact.map_err(|error| failed(&error))?;
            let table = self.table_of(client, request.change).await?;
            let now = rows_now(client, &table, request.change, &all(request.change)).await?;
            let mut found = compare(request.change, &now);
            if for_real && !found.restored.is_empty() {
                let kept = self.restore(client, &table, request.change, &found.restored);
                found.not_kept = kept.await?;
                if found.not_kept.is_none() {
                    keeper.keep(request.change.inverse(&found.restored)).await?;
                }
            }
            Ok::<RowsPutBack, OpsError>(found)
        };
        let found = tokio::select! {
            biased;
            found = run => found,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        match found {
            Ok(found) if for_real && !found.restored.is_empty() => match backend.commit().await {
                Ok(()) => Ok(found),
                Err(error) if error.as_db_error().is_some() => Err(failed(&error)),
                Err(_) => Err(lost()),
            },
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(backend.end(halt.timed_out()).await)
            }
            found => {
                backend.roll_back().await;
                found
            }
        }
    }

    /// The table as it is now, if it still has what the change needs.
    async fn table_of(&self, client: &Client, change: &RowChange) -> Result<RowTable, OpsError> {
        let schema = change.schema.as_deref().unwrap_or(&self.schema);
        let kind = kind_of(change, str::to_owned);
        let table = RowTable::of(client, (schema, &change.table), &kind).await?;
        let mut table = table.map_err(|why| cannot(&why))?;
        table.kept.as_kept(change, |column| &column.name)?;
        Ok(table)
    }

    /// Gives the rows at these places their former values. Says why what this does cannot be kept, if
    /// it cannot.
    async fn restore(
        &self,
        client: &Client,
        table: &RowTable,
        change: &RowChange,
        places: &[usize],
    ) -> Result<Option<String>, OpsError> {
        let own = ChangedTable {
            schema: change.schema.clone(),
            table: change.table.clone(),
            called: change.table.clone(),
            // Keys stay as they are, so no row moves to another partition.
            kind: ChangeKind::Delete,
        };
        let own = self.own_tables(client, &own).await?;
        let steps = RowSteps::of(change, places);
        for (places, statement) in [
            (&steps.remove, remove(table)),
            (&steps.update, update(table, change, &steps.update)),
            (&steps.insert, insert(table)),
        ] {
            if places.is_empty() {
                continue;
            }
            let parameters = parameters(table, change, places);
            let prepared = client.prepare(&statement).await;
            let prepared = prepared.map_err(|error| failed(&error))?;
            let done = client.execute_raw(&prepared, parameters).await;
            let done = done.map_err(|error| failed(&error))?;
            if done != places.len() as u64 {
                return Err(cannot(CHANGED_NOW));
            }
        }
        let others = self
            .check_other_changes(client, &own, places.len() as u64)
            .await?;
        let now = rows_now(client, table, change, places).await?;
        if !are_back(change, places, &now) {
            return Err(cannot(NOT_EXACT));
        }
        Ok(others)
    }
}

async fn rows_now(
    client: &Client,
    table: &RowTable,
    change: &RowChange,
    places: &[usize],
) -> Result<RowsByKey, OpsError> {
    let keys = keys(change, places);
    let now = row_values::read(client, table, &keys, NO_LIMIT).await?;
    now.map_err(|why| cannot(&why))
}

/// Every statement here has the same parameters: keys, former values, values that the change left.
fn parameters(table: &RowTable, change: &RowChange, places: &[usize]) -> Vec<TextParameter> {
    let mut parameters = row_values::key_parameters(table, &keys(change, places));
    let rows = || places.iter().filter_map(|place| change.rows.get(*place));
    for former in [true, false] {
        for column in 0..change.columns.len() {
            let values = rows().map(|row| {
                let values: &Option<Vec<KeptValue>> = if former { &row.before } else { &row.after };
                values.as_ref()?.get(column)
            });
            parameters.push(array(values));
        }
    }
    parameters
}

/// The parameters as a table `wanted`: keys `k0`, former values `b0`, values that were left `a0`.
fn wanted(table: &RowTable) -> String {
    let (keys, columns) = (table.kept.key.len(), table.kept.columns.len());
    let mut arrays: Vec<String> = table
        .kept
        .key
        .iter()
        .enumerate()
        .map(|(place, column)| format!("${}::{}[]", place + 1, column.kind))
        .collect();
    arrays.extend((0..columns * 2).map(|place| format!("${}::text[]", keys + place + 1)));
    let names = [("k", keys), ("b", columns), ("a", columns)];
    let names: Vec<String> = names
        .iter()
        .flat_map(|(letter, count)| (0..*count).map(move |place| format!("{letter}{place}")))
        .collect();
    format!(
        "unnest({}) AS wanted({})",
        arrays.join(", "),
        names.join(", ")
    )
}

/// Whether a row has the values that the change left.
fn as_left(table: &RowTable) -> String {
    let same = table
        .kept
        .columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let now = written(&of("t", column));
            format!(" AND ({now}) IS NOT DISTINCT FROM wanted.a{place}")
        });
    same.collect()
}

fn remove(table: &RowTable) -> String {
    format!(
        "DELETE FROM {} AS t USING {} WHERE {}{}",
        table.written(),
        wanted(table),
        same_key(table),
        as_left(table)
    )
}

fn update(table: &RowTable, change: &RowChange, places: &[usize]) -> String {
    let set: Vec<String> = differing_columns(change, places)
        .into_iter()
        .filter_map(|place| {
            let column = table.kept.columns.get(place)?;
            let name = super::row_table::identifier(&column.name);
            Some(format!("{name} = wanted.b{place}::{}", column.kind))
        })
        .collect();
    format!(
        "UPDATE {} AS t SET {} FROM {} WHERE {}{}",
        table.written(),
        set.join(", "),
        wanted(table),
        same_key(table),
        as_left(table)
    )
}

fn insert(table: &RowTable) -> String {
    let names: Vec<String> = table
        .kept
        .columns
        .iter()
        .map(|column| super::row_table::identifier(&column.name))
        .collect();
    let values: Vec<String> = table
        .kept
        .columns
        .iter()
        .enumerate()
        .map(|(place, column)| format!("wanted.b{place}::{}", column.kind))
        .collect();
    format!(
        "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}",
        table.written(),
        names.join(", "),
        values.join(", "),
        wanted(table)
    )
}
