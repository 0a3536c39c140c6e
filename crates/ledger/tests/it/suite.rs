//! The suite every ledger passes, on SQLite. A crash is played here by closing and opening again;
//! `crash.rs` kills real processes.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{History, Ledger},
};
use haft_ledger::SqliteLedger;
use haft_testkit::suite::ledger::LedgerFixture;

use crate::{
    artifacts::kept,
    support::{Fixture, database},
};

struct SqliteFixture {
    fixture: Fixture,
    ledger: SqliteLedger,
}

impl SqliteFixture {
    /// The suite makes its fixtures inside a runtime and without waiting, so another thread waits.
    fn new() -> Self {
        let opened = std::thread::spawn(|| {
            let fixture = Fixture::new();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let ledger = runtime.block_on(fixture.open());
            Self { fixture, ledger }
        });
        opened.join().unwrap()
    }
}

impl LedgerFixture for SqliteFixture {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.ledger.clone())
    }

    fn history(&self) -> Arc<dyn History> {
        Arc::new(self.ledger.clone())
    }

    async fn another(&self) -> Arc<dyn Ledger> {
        Arc::new(self.fixture.open().await)
    }

    async fn reopen(&mut self) {
        self.ledger.close().await.unwrap();
        self.ledger = self.fixture.open().await;
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        let mut connection = database(&self.fixture.directory()).await;
        sqlx::query("UPDATE event SET body = '{}' WHERE tenant = ?1 AND sequence = ?2")
            .bind(tenant.as_str())
            .bind(i64::try_from(sequence).unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
    }

    async fn kept_artifacts(&self) -> usize {
        kept(&self.fixture).len()
    }
}

haft_testkit::ledger_suite!(SqliteFixture::new());
