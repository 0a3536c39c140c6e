//! The suite every ledger passes, on PostgreSQL.

use haft_contract::TenantId;
use haft_ledger::StoredLedger;

use super::PostgresFixture;
use crate::{
    artifacts::kept_in,
    engine::EngineFixture,
    suite::{SuiteFixture, SuiteRecord},
};

impl SuiteRecord for PostgresFixture {
    async fn open(&self) -> StoredLedger {
        self.open().await
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        self.server.sql(&format!(
            "UPDATE haft.record SET body = '\\x5b5d' WHERE position = {sequence}
             AND tenant = (SELECT id FROM haft.tenant WHERE name = '{tenant}')"
        ));
    }

    async fn edit(&self, sql: &str) {
        EngineFixture::tamper(self, sql).await;
    }

    fn kept_artifacts(&self) -> usize {
        kept_in(&self.directory()).len()
    }
}

haft_testkit::ledger_suite!(
    SuiteFixture::opened_by(async || PostgresFixture::new().await),
    #[ignore = "ci: needs PostgreSQL"]
);
crate::gateway_suite!(
    PostgresFixture::new().await,
    #[ignore = "ci: needs PostgreSQL"]
);
