//! The suite every ledger passes, on SQLite. A crash is played here by closing and opening again;
//! `crash.rs` kills real processes.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{History, Ledger},
};
use haft_ledger::StoredLedger;
use haft_testkit::suite::ledger::LedgerFixture;

use crate::{
    artifacts::kept,
    engine::EngineFixture,
    support::{Fixture, database},
};

/// A record that the suite is played on.
pub(crate) trait SuiteRecord: Send + Sized + 'static {
    /// As the next process opens it.
    async fn open(&self) -> StoredLedger;

    /// Changes a row behind the ledger's back.
    async fn tamper(&self, tenant: &TenantId, sequence: u64);

    /// Runs a statement behind the ledger's back. Functions of SQLite that it needs are there on every
    /// engine.
    async fn edit(&self, sql: &str);

    /// How many artifacts are kept, including unfinished ones.
    fn kept_artifacts(&self) -> usize;
}

/// A record and the ledger that has it open.
pub(crate) struct SuiteFixture<R> {
    pub(crate) record: R,
    ledger: StoredLedger,
}

impl<R: SuiteRecord> SuiteFixture<R> {
    pub(crate) async fn on(record: R) -> Self {
        let ledger = record.open().await;
        Self { record, ledger }
    }

    /// The suite makes its fixtures inside a runtime and without waiting, so another thread waits.
    pub(crate) fn opened_by(make: impl AsyncFnOnce() -> R + Send + 'static) -> Self {
        let opened = std::thread::spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async { Self::on(make().await).await })
        });
        opened.join().unwrap()
    }
}

impl<R: SuiteRecord> LedgerFixture for SuiteFixture<R> {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger.clone())
    }

    fn history(&self) -> Arc<dyn History> {
        Arc::new(self.ledger.clone())
    }

    async fn another(&self) -> Arc<dyn Ledger> {
        Arc::new(self.record.open().await)
    }

    async fn reopen(&mut self) {
        self.ledger.close().await.unwrap();
        self.ledger = self.record.open().await;
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        self.record.tamper(tenant, sequence).await;
    }

    async fn kept_artifacts(&self) -> usize {
        self.record.kept_artifacts()
    }
}

impl SuiteRecord for Fixture {
    async fn open(&self) -> StoredLedger {
        self.open().await
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        let mut connection = database(&self.directory()).await;
        sqlx::query("UPDATE record SET body = x'5b5d' WHERE position = ?2 AND tenant = (SELECT id FROM tenant WHERE name = ?1)")
            .bind(tenant.as_str())
            .bind(i64::try_from(sequence).unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
    }

    async fn edit(&self, sql: &str) {
        EngineFixture::tamper(self, sql).await;
    }

    fn kept_artifacts(&self) -> usize {
        kept(self).len()
    }
}

haft_testkit::ledger_suite!(SuiteFixture::opened_by(async || Fixture::new()));
crate::gateway_suite!(Fixture::new());
