//! Runs statements. The writer's connection is used on the writer's own thread, which waits for the
//! disk anyway: another thread in between would cost more than a statement does.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::BoxFuture;
use rusqlite::{ErrorCode, ToSql, types::ToSqlOutput, types::ValueRef};
use tokio::time::Instant;

use super::{BUSY_WAIT, open, text};
use crate::store::{Cell, Connection, Order, Row, StoreError, TextSearch, Value, values};

/// The first and the longest pause between two attempts to begin a transaction.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

/// The newest position.
pub(super) const NEWEST_POSITION: &str = "SELECT coalesce(max(position), 0) FROM record";

/// The connection that writes.
pub(super) struct WritingConnection(rusqlite::Connection);

impl WritingConnection {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = open(path).map_err(failed)?;
        connection
            .execute_batch("PRAGMA synchronous = full")
            .map_err(failed)?;
        Ok(Self(connection))
    }

    /// Runs statements that have no values, one after the other.
    pub(super) fn run_script(&mut self, script: &str) -> Result<(), StoreError> {
        self.0.execute_batch(script).map_err(failed)
    }

    /// Waits for its turn without blocking the thread, which has more to do than to write.
    async fn begin_alone(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + BUSY_WAIT;
        let (mut pause, longest) = BUSY_PAUSES;
        self.0.busy_timeout(Duration::ZERO).map_err(failed)?;
        let begun = loop {
            match self.0.execute_batch("BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) && Instant::now() < until => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest);
                }
                begun => break begun,
            }
        };
        self.0.busy_timeout(BUSY_WAIT).map_err(failed)?;
        begun.map_err(failed)
    }
}

impl Connection for WritingConnection {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let rows = query(&self.0, statement, values);
        Box::pin(std::future::ready(rows.map_err(failed)))
    }

    fn execute_all<'a>(
        &'a mut self,
        statement: &'a str,
        rows: &'a [Vec<Value<'a>>],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let changed = execute_all(&self.0, statement, rows);
        Box::pin(std::future::ready(changed.map_err(failed)))
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.begin_alone())
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.run_script("COMMIT")))
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(self.run_script("ROLLBACK")))
    }

    fn next_change(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            let next = "SELECT coalesce(max(changed), 0) + 1 FROM approval";
            connection.number(next, &[]).await
        })
    }

    fn next_positions(&mut self, count: usize) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            // Nobody else inserts before this transaction ends.
            let newest = self.settled_position().await?;
            Ok((newest + 1..).take(count).collect())
        })
    }

    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let connection: &mut dyn Connection = self;
            connection.number(NEWEST_POSITION, &[]).await
        })
    }

    fn index_texts<'a>(
        &'a mut self,
        tenant: &'a str,
        calls: &'a [(i64, String)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let texts: Vec<String> = calls
                .iter()
                .map(|(_, text)| text::indexed(tenant, text))
                .collect();
            let rows: Vec<_> = calls
                .iter()
                .zip(&texts)
                .map(|((listed, _), text)| values![*listed, text].to_vec())
                .collect();
            self.execute_all(text::INDEX, &rows).await.map(|_| ())
        })
    }

    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(find_text(self, search))
    }
}

/// Where calls are listed whose text has all of these words.
pub(super) async fn find_text(
    connection: &mut dyn Connection,
    search: &TextSearch<'_>,
) -> Result<Vec<i64>, StoreError> {
    let expression = text::match_expression(search);
    let values = text::values_of(search, &expression);
    let statement = match search.order {
        Order::NewestFirst => text::FIND,
        Order::OldestFirst => text::FIND_NEXT,
    };
    text::listed(&connection.query(statement, &values).await?)
}

/// All rows of a statement.
pub(super) fn query(
    connection: &rusqlite::Connection,
    statement: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(statement)?;
    let columns: Arc<[String]> = statement
        .column_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    bind(&mut statement, values)?;
    let mut rows = statement.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let cells: Result<Vec<Cell>, rusqlite::Error> = (0..columns.len())
            .map(|column| row.get_ref(column).map(cell))
            .collect();
        found.push(Row::new(Arc::clone(&columns), cells?));
    }
    Ok(found)
}

fn execute_all(
    connection: &rusqlite::Connection,
    statement: &str,
    rows: &[Vec<Value<'_>>],
) -> Result<u64, rusqlite::Error> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut changed = 0;
    for values in rows {
        bind(&mut statement, values)?;
        changed += statement.raw_execute()? as u64;
    }
    Ok(changed)
}

fn bind(
    statement: &mut rusqlite::CachedStatement<'_>,
    values: &[Value<'_>],
) -> Result<(), rusqlite::Error> {
    for (index, value) in (1..).zip(values) {
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        // No column holds fractions, so nothing reads one.
        ValueRef::Null | ValueRef::Real(_) => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        // Text that is not UTF-8 was not written by this program; it is not text then.
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Bytes(bytes.to_vec()),
        },
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// SQLite's own words name no path; what rusqlite adds may.
pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            StoreError::Refused(message.unwrap_or_else(|| code.to_string()))
        }
        error => {
            tracing::debug!(%error, "SQLite could not be used");
            StoreError::Unreachable("the database cannot be reached".to_owned())
        }
    }
}
