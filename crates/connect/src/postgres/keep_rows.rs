//! Keeps the rows that a change replaces. The statement itself says which they are, by their keys;
//! what they were before is read over a second connection, which sees them as they were until the
//! first one commits. So no condition is run twice, and what is read is what was replaced.

use haft_contract::ops::{KeptRowsLimit, KeptValue, OpsError, RowChange};
use tokio_postgres::Client;

use super::{
    PostgresSource,
    failure::failed,
    row_table::{RowTable, identifier},
    row_values,
    session::TransactionUse,
};
use crate::{
    halt::Halt,
    kept_rows::too_many,
    row_comparison::RowsByKey,
    sql::{ChangedTable, SqlReading},
};

/// How long the second connection waits for a lock. Who alters the table waits for the first one, and
/// the second would wait for whoever alters it.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = 2000";

/// Whether the second connection sees the transaction of the first, on the same server.
const SAME_SERVER: &str = "SELECT NOT pg_catalog.pg_is_in_recovery()
    AND pg_catalog.txid_status($1) = 'in progress'";

/// A change whose rows are going to be kept.
pub(super) struct KeptRows<'r> {
    change: &'r ChangedTable,
    table: RowTable,
    limit: KeptRowsLimit,
    keys: Vec<Vec<KeptValue>>,
}

impl PostgresSource {
    /// Prepares to keep what a statement changes, or says why that is not possible.
    pub(super) async fn kept_rows<'r>(
        &self,
        client: &Client,
        reading: &'r SqlReading,
        (expected, limit): (u64, KeptRowsLimit),
    ) -> Result<Result<KeptRows<'r>, String>, OpsError> {
        let Some(change) = &reading.change else {
            return Ok(Err("it changes no table".to_owned()));
        };
        if let Some(why) = too_many(expected, limit) {
            return Ok(Err(why));
        }
        let table = self.row_table(client, change).await?;
        Ok(table.map(|table| KeptRows {
            change,
            table,
            limit,
            keys: Vec::new(),
        }))
    }

    /// The table of a change, or why its rows cannot be kept.
    pub(super) async fn row_table(
        &self,
        client: &Client,
        change: &ChangedTable,
    ) -> Result<Result<RowTable, String>, OpsError> {
        let schema = change.schema.as_deref().unwrap_or(&self.schema);
        RowTable::of(client, (schema, &change.table), &change.kind).await
    }

    /// The rows before and after a statement that has run, or why there are none to keep.
    pub(super) async fn changed_rows(
        &self,
        client: &Client,
        kept: &KeptRows<'_>,
        (source, changed): (&str, u64),
        halt: &Halt,
    ) -> Result<Result<RowChange, String>, OpsError> {
        let begun = format!("SAVEPOINT haft_rows; {}", row_values::EXACT);
        client
            .batch_execute(&begun)
            .await
            .map_err(|error| failed(&error))?;
        let read = row_values::read(client, &kept.table, &kept.keys, kept.limit).await;
        let after = match read {
            Ok(Ok(after)) => after,
            Ok(Err(why)) => return Ok(Err(why)),
            Err(error) => {
                // The change itself is as it was.
                let undone = client
                    .batch_execute("ROLLBACK TO SAVEPOINT haft_rows")
                    .await;
                undone.map_err(|error| failed(&error))?;
                return Ok(Err(error.message().to_owned()));
            }
        };
        let before = match self.rows_before(client, kept, halt).await {
            Ok(Ok(before)) => before,
            Ok(Err(why)) => return Ok(Err(why)),
            Err(error) => {
                let why = error.message();
                return Ok(Err(format!("the rows before it could not be read: {why}")));
            }
        };
        let told = (source, kept.change);
        let columns = &kept.table.kept;
        Ok(columns.row_change(told, (before, after), changed, |column| &column.name))
    }

    /// The rows as they are to everybody else.
    async fn rows_before(
        &self,
        client: &Client,
        kept: &KeptRows<'_>,
        halt: &Halt,
    ) -> Result<Result<RowsByKey, String>, OpsError> {
        let error = |error: tokio_postgres::Error| failed(&error);
        let row = client
            .query_one("SELECT pg_catalog.txid_current()", &[])
            .await;
        let transaction: i64 = row.and_then(|row| row.try_get(0)).map_err(error)?;
        let backend = self.begin(TransactionUse::Reads, halt).await?;
        let look = async {
            let beside = backend.client()?;
            let settings = format!("{}; {LOCK_WAIT}", row_values::EXACT);
            beside.batch_execute(&settings).await.map_err(error)?;
            let row = beside.query_one(SAME_SERVER, &[&transaction]).await;
            let same: Option<bool> = row.and_then(|row| row.try_get(0)).map_err(error)?;
            if same != Some(true) {
                return Ok(Err("a second connection reaches another server".to_owned()));
            }
            row_values::read(beside, &kept.table, &kept.keys, kept.limit).await
        };
        let looked = look.await;
        backend.roll_back().await;
        looked
    }
}

impl KeptRows<'_> {
    /// The statement, so that it also says which rows it changes.
    pub(super) fn telling(&self, statement: &str) -> String {
        let called = identifier(&self.change.called);
        let keys: Vec<String> = self
            .table
            .kept
            .key
            .iter()
            .map(|column| row_values::written(&row_values::of(&called, column)))
            .collect();
        format!("{statement} RETURNING {}", keys.join(", "))
    }

    /// Takes the key of a row that was changed, unless there are too many.
    pub(super) fn take(&mut self, row: &tokio_postgres::Row) -> Result<(), OpsError> {
        if self.keys.len() as u64 >= self.limit.rows {
            return Ok(());
        }
        let mut key = Vec::with_capacity(row.len());
        for place in 0..row.len() {
            let text: Option<String> = row.try_get(place).map_err(|error| failed(&error))?;
            key.push(text.map_or(KeptValue::Null, KeptValue::Text));
        }
        self.keys.push(key);
        Ok(())
    }
}
