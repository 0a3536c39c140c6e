//! A record on either engine, for what must hold on both.

use std::{path::PathBuf, time::Duration};

use haft_contract::host::{CallQuery, History as _, StoredCall, Verification};
use haft_ledger::{LedgerOptions, Recovery, StoredLedger};
use haft_testkit::CpuTime;

use crate::{
    child::{self, Player},
    postgres::PostgresFixture,
    support::{Fixture, tenant},
};

/// A record that is opened again and again, killed, and changed behind the ledger's back.
pub(crate) trait EngineFixture: Sized {
    /// An empty record.
    async fn empty() -> Self;

    /// Another empty record; on the same server where there is one.
    async fn another(&self) -> Self;

    /// As the next process on this machine opens it.
    fn options(&self) -> LedgerOptions;

    /// Starts a process that plays a part, without waiting.
    fn start(&self, part: &str) -> Player;

    /// Changes the database as whoever owns it. Functions of SQLite that a statement needs are there on
    /// every engine.
    async fn tamper(&self, sql: &str);

    /// A number that the database has.
    async fn number(&self, sql: &str) -> i64;

    /// Where every byte of the record is, on the disk by now.
    fn directories(&self) -> Vec<PathBuf>;

    /// What the record takes on the disk.
    fn bytes(&self) -> u64;

    /// Processor time of this process and of the server, if there is one.
    fn processor_time(&self) -> Duration {
        CpuTime::ever()
    }

    /// Makes a table what its copy `{table}_before` is.
    fn put_back(table: &str) -> String;

    /// Starts a process and waits until it is at its point.
    fn play(&self, part: &str) -> Player {
        self.start(part).wait_ready()
    }

    async fn recover(&self) -> (StoredLedger, Recovery) {
        StoredLedger::open(self.options()).await.unwrap()
    }

    async fn open(&self) -> StoredLedger {
        self.recover().await.0
    }
}

impl EngineFixture for Fixture {
    async fn empty() -> Self {
        Self::new()
    }

    async fn another(&self) -> Self {
        Self::new()
    }

    fn options(&self) -> LedgerOptions {
        self.options()
    }

    fn start(&self, part: &str) -> Player {
        child::start(part, &self.directory(), None)
    }

    async fn tamper(&self, sql: &str) {
        self.tamper(sql.to_owned().leak()).await;
    }

    async fn number(&self, sql: &str) -> i64 {
        self.number(sql.to_owned().leak()).await
    }

    fn directories(&self) -> Vec<PathBuf> {
        vec![self.directory()]
    }

    fn bytes(&self) -> u64 {
        let file = |name| std::fs::metadata(self.directory().join(name)).map_or(0, |of| of.len());
        file("ledger.db") + file("ledger.db-wal")
    }

    fn put_back(table: &str) -> String {
        format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}_before")
    }
}

/// What a statement written for SQLite needs besides.
const AS_OWNER: &str =
    "SET ROLE haft_owner; SET haft.every = 'on'; SET search_path = haft, pg_temp;
    CREATE OR REPLACE FUNCTION zeroblob(bytes integer) RETURNS bytea LANGUAGE sql
        AS $$ SELECT decode(repeat('00', bytes), 'hex') $$;";

/// A statement written for SQLite.
fn in_its_words(sql: &str) -> String {
    sql.replace("CAST(body AS TEXT)", "convert_from(body, 'UTF8')")
        .replace("AS BLOB)", "AS BYTEA)")
}

impl EngineFixture for PostgresFixture {
    async fn empty() -> Self {
        Self::new().await
    }

    async fn another(&self) -> Self {
        self.on_a_new_database().await
    }

    fn options(&self) -> LedgerOptions {
        self.options("app")
    }

    fn start(&self, part: &str) -> Player {
        child::start_on(part, &self.directory(), &self.url())
    }

    async fn tamper(&self, sql: &str) {
        let sql = in_its_words(sql);
        self.sql(&format!("{AS_OWNER} {sql}"));
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = in_its_words(sql);
        let sql = format!("SET search_path = haft; {sql}");
        self.sql(&sql).parse().unwrap()
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.sql("CHECKPOINT");
        vec![self.directory(), self.server.data_directory()]
    }

    fn bytes(&self) -> u64 {
        let size = "SELECT pg_database_size(current_database())";
        self.sql(size).parse().unwrap()
    }

    fn processor_time(&self) -> Duration {
        CpuTime::ever() + self.server.processor_time()
    }

    fn put_back(table: &str) -> String {
        format!(
            "DELETE FROM {table};
             INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {table}_before"
        )
    }
}

/// Every call of the record, newest first.
pub(crate) async fn calls(ledger: &StoredLedger) -> Vec<StoredCall> {
    let query = CallQuery {
        limit: 100_000,
        ..CallQuery::default()
    };
    ledger.calls(&tenant(), &query).await.unwrap()
}

pub(crate) async fn assert_intact(ledger: &StoredLedger, context: &str) {
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{context}: {verified:?}"
    );
}
