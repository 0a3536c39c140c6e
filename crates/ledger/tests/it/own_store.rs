//! The suite every ledger passes, on a database that a program brings: all of it written against the
//! public traits. Its words are found by reading every text, as a database without full text would.

use std::{path::Path, sync::Arc};

use haft_contract::{BoxFuture, TenantId};
use haft_ledger::{
    LedgerOptions, OpenError, SCHEMA, StoreError, StoredLedger,
    store::{Cell, Connection, NamedStore, Order, Row, Scope, Store, TextSearch, Value},
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use tempfile::TempDir;

use crate::{
    artifacts::kept_in,
    suite::{SuiteFixture, SuiteRecord},
    support::Fixed,
};

/// A file that this test opens by itself.
struct OwnStore(std::path::PathBuf);

struct OwnConnection(rusqlite::Connection);

impl OwnStore {
    fn connect(&self) -> Result<OwnConnection, StoreError> {
        let connection = rusqlite::Connection::open(&self.0).map_err(refused)?;
        connection
            .execute_batch("PRAGMA journal_mode = wal; PRAGMA busy_timeout = 10000")
            .map_err(refused)?;
        Ok(OwnConnection(connection))
    }
}

impl Store for OwnStore {
    fn open(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, OpenError>> {
        Box::pin(async move {
            let connection = self.connect()?;
            let made = connection
                .0
                .query_row("PRAGMA user_version", [], |row| row.get(0));
            let made: i64 = made.map_err(refused)?;
            for step in SCHEMA.iter().skip(usize::try_from(made).unwrap()) {
                connection.0.execute_batch(step).map_err(refused)?;
            }
            let ours = format!(
                "PRAGMA user_version = {}; \
                 CREATE TABLE IF NOT EXISTS words (listed INTEGER PRIMARY KEY, tenant TEXT, text TEXT)",
                SCHEMA.len()
            );
            connection.0.execute_batch(&ours).map_err(refused)?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn writer(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        let connection = self.connect();
        Box::pin(async move { Ok(Box::new(connection?) as Box<dyn Connection>) })
    }

    fn reader<'a>(
        &'a self,
        _: Scope<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        let connection = self.connect();
        Box::pin(async move {
            let connection = connection?;
            let reads = connection.0.execute_batch("PRAGMA query_only = on");
            reads.map_err(refused)?;
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }

    fn close(&self) {}
}

impl OwnConnection {
    fn run<T>(
        &self,
        run: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> BoxFuture<'static, Result<T, StoreError>>
    where
        T: Send + 'static,
    {
        Box::pin(std::future::ready(run(&self.0).map_err(refused)))
    }

    /// Readers begin as readers do; a writer waits for its turn.
    fn begins(&self) -> &'static str {
        let reads = self.0.query_row("PRAGMA query_only", [], |row| row.get(0));
        if reads.unwrap_or(true) {
            "BEGIN"
        } else {
            "BEGIN IMMEDIATE"
        }
    }

    fn rows(&self, statement: &str, values: &[Value<'_>]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.0.prepare_cached(statement)?;
        let names = statement.column_names();
        let columns: Arc<[String]> = names.into_iter().map(str::to_owned).collect();
        let mut rows = statement.query(bound(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let cells: rusqlite::Result<Vec<Cell>> = (0..columns.len())
                .map(|column| row.get_ref(column).map(cell))
                .collect();
            found.push(Row::new(Arc::clone(&columns), cells?));
        }
        Ok(found)
    }

    fn number(&self, statement: &str) -> BoxFuture<'static, Result<i64, StoreError>> {
        self.run(|connection| connection.query_row(statement, [], |row| row.get(0)))
    }
}

impl Connection for OwnConnection {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        self.run(|_| self.rows(statement, values))
    }

    fn execute_all<'a>(
        &'a mut self,
        statement: &'a str,
        rows: &'a [Vec<Value<'a>>],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(statement)?;
            let changed: rusqlite::Result<Vec<usize>> = rows
                .iter()
                .map(|values| statement.execute(bound(values)))
                .collect();
            Ok(changed?.iter().sum::<usize>() as u64)
        })
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        let begins = self.begins();
        self.run(|connection| connection.execute_batch(begins))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.run(|connection| connection.execute_batch("COMMIT"))
    }

    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.run(|connection| connection.execute_batch("ROLLBACK"))
    }

    fn next_change(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        self.number("SELECT coalesce(max(changed), 0) + 1 FROM approval")
    }

    fn next_positions(&mut self, count: usize) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        let newest = self.settled_position();
        Box::pin(async move { Ok((newest.await? + 1..).take(count).collect()) })
    }

    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        self.number("SELECT coalesce(max(position), 0) FROM record")
    }

    fn index_texts<'a>(
        &'a mut self,
        tenant: &'a str,
        calls: &'a [(i64, String)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.run(|connection| {
            for (listed, text) in calls {
                let insert = "INSERT OR REPLACE INTO words VALUES (?1, ?2, ?3)";
                connection.execute(insert, (listed, tenant, text.to_lowercase()))?;
            }
            Ok(())
        })
    }

    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        self.run(|connection| {
            let mut all = connection.prepare(
                "SELECT listed, text FROM words WHERE tenant = ?1 AND listed < ?2 AND listed > ?3
                 ORDER BY listed",
            )?;
            let all = all.query_map((search.tenant, search.before, search.after), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            let all: Vec<(i64, String)> = all.collect::<rusqlite::Result<_>>()?;
            let found = all.into_iter().filter(|(_, text)| {
                let words = || text.split(|letter: char| !letter.is_alphanumeric());
                search.words.iter().all(|word| {
                    let word = word.to_lowercase();
                    words().any(|of_text| of_text.starts_with(&word))
                })
            });
            let mut found: Vec<i64> = found.map(|(listed, _)| listed).collect();
            if search.order == Order::NewestFirst {
                found.reverse();
            }
            found.truncate(usize::try_from(search.limit).unwrap_or(0));
            Ok(found)
        })
    }
}

fn bound<'a>(values: &'a [Value<'a>]) -> impl rusqlite::Params + 'a {
    rusqlite::params_from_iter(values.iter().map(|value| {
        ToSqlOutput::Borrowed(match value {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        })
    }))
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null | ValueRef::Real(_) => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped with")]
fn refused(error: rusqlite::Error) -> StoreError {
    StoreError::Refused(error.to_string())
}

/// A record in such a database, and its directory.
struct OwnRecord(TempDir);

impl OwnRecord {
    fn database(&self) -> std::path::PathBuf {
        self.0.path().join("ours.db")
    }

    fn directory(&self) -> impl AsRef<Path> {
        self.0.path().join("record")
    }
}

impl SuiteRecord for OwnRecord {
    async fn open(&self) -> StoredLedger {
        let own = NamedStore::new("ours", Arc::new(OwnStore(self.database())));
        let directory = self.directory().as_ref().to_owned();
        let options = LedgerOptions::new(directory, Arc::new(Fixed)).store(own);
        StoredLedger::open(options).await.unwrap().0
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        let change = "UPDATE record SET body = x'5b5d' WHERE position = ?2
            AND tenant = (SELECT id FROM tenant WHERE name = ?1)";
        let connection = rusqlite::Connection::open(self.database()).unwrap();
        let position = i64::try_from(sequence).unwrap();
        assert_eq!(
            connection
                .execute(change, (tenant.as_str(), position))
                .unwrap(),
            1
        );
    }

    async fn edit(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.database()).unwrap();
        connection.execute_batch(sql).unwrap();
    }

    fn kept_artifacts(&self) -> usize {
        kept_in(self.directory().as_ref()).len()
    }
}

haft_testkit::ledger_suite!(SuiteFixture::opened_by(async || {
    OwnRecord(tempfile::tempdir().unwrap())
}));
crate::gateway_suite!(OwnRecord(tempfile::tempdir().unwrap()));
