//! The suite every ledger passes, on a record in memory. What only a record in memory has to show is
//! here too: that it ends with its handle, and that no other has its rows.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{CallQuery, History as _, Ledger as _},
};
use haft_ledger::{LedgerOptions, MemoryRecord, StoredLedger};
use sqlx::{ConnectOptions as _, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::{
    suite::{SuiteFixture, SuiteRecord},
    support::{Fixed, NOW, request},
};

struct InMemory(MemoryRecord);

impl InMemory {
    fn new() -> Self {
        Self(MemoryRecord::new().unwrap())
    }

    async fn connect(&self) -> SqliteConnection {
        let database = self.0.database();
        let name = database.strip_prefix("file:").unwrap();
        let options = SqliteConnectOptions::new()
            .filename(name.strip_suffix("?vfs=memdb").unwrap())
            .vfs("memdb");
        options.connect().await.unwrap()
    }
}

impl SuiteRecord for InMemory {
    async fn open(&self) -> StoredLedger {
        let options = LedgerOptions::in_memory(&self.0, Arc::new(Fixed));
        StoredLedger::open(options).await.unwrap().0
    }

    async fn tamper(&self, tenant: &TenantId, sequence: u64) {
        let mut connection = self.connect().await;
        let changed = sqlx::query("UPDATE record SET body = x'5b5d' WHERE position = ?2 AND tenant = (SELECT id FROM tenant WHERE name = ?1)")
            .bind(tenant.as_str())
            .bind(i64::try_from(sequence).unwrap())
            .execute(&mut connection)
            .await
            .unwrap();
        assert_eq!(changed.rows_affected(), 1);
    }

    async fn edit(&self, sql: &str) {
        let mut connection = self.connect().await;
        let sql: &'static str = sql.to_owned().leak();
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }

    fn kept_artifacts(&self) -> usize {
        self.0.kept_artifacts()
    }
}

haft_testkit::ledger_suite!(SuiteFixture::opened_by(async || InMemory::new()));
crate::gateway_suite!(InMemory::new());

#[tokio::test]
async fn a_record_in_memory_is_alone_and_ends_with_its_handle() {
    let (one, other) = (InMemory::new(), InMemory::new());
    let (here, there) = (one.open().await, other.open().await);
    let request = request("s1", "read", serde_json::json!({}));
    drop(here.open(&request, NOW).await.unwrap());
    here.flush().await.unwrap();
    let tenant = TenantId::local();
    let calls = async |ledger: &StoredLedger| {
        let calls = ledger.calls(&tenant, &CallQuery::default()).await;
        calls.unwrap().len()
    };
    assert_eq!((calls(&here).await, calls(&there).await), (1, 0));
    here.close().await.unwrap();
    // While its handle is there, it can be opened again.
    let again = one.open().await;
    assert_eq!(calls(&again).await, 1);
    again.close().await.unwrap();
    there.close().await.unwrap();
}
