//! A record of the schema before is brought up to date: nothing is lost, and what is derived from the calls
//! is derived anew.

use haft_contract::host::{
    CallFilter, CallQuery, History as _, Ledger as _, StatsKey, StatsQuery, Verification,
};
use haft_ledger::{LedgerOptions, StoredLedger};

use crate::{
    engine::EngineFixture,
    memories::memory,
    postgres::PostgresFixture,
    support::{Fixture, tenant, whole_call},
};

/// Makes the tables what the first schema had. Its list of sessions had counted what was there.
const FIRST_SCHEMA: &str = "DROP TABLE memory; DROP TABLE memory_source; DROP TABLE workspace; DROP TABLE call_fact; DROP TABLE session_calls;
    CREATE TABLE session_calls (session bigint NOT NULL PRIMARY KEY, tenant bigint NOT NULL,
        kind text NOT NULL, agent text NOT NULL, first_at bigint NOT NULL, last_at bigint NOT NULL,
        calls bigint NOT NULL);
    CREATE INDEX session_by_last ON session_calls (tenant, last_at);
    INSERT INTO session_calls SELECT id, tenant, 'main', 'agent', 0, 0, 3 FROM session;";

/// Makes the tables what the second schema had.
const SECOND_SCHEMA: &str = "DROP TABLE memory; DROP TABLE memory_source;";

#[tokio::test]
async fn the_second_schema_of_sqlite_is_brought_up_to_date() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let older = format!("{SECOND_SCHEMA} PRAGMA user_version = 2");
    migrated(&fixture, &older, options).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn the_second_schema_of_postgresql_is_brought_up_to_date() {
    let fixture = PostgresFixture::new().await;
    let options = fixture.options("haft_owner");
    let older = format!("{SECOND_SCHEMA} DELETE FROM schema_version WHERE version > 2");
    migrated(&fixture, &older, options).await;
}

#[tokio::test]
async fn the_first_schema_of_sqlite_is_brought_up_to_date() {
    let fixture = Fixture::new();
    let options = fixture.options();
    let older = format!("{FIRST_SCHEMA} PRAGMA user_version = 1");
    migrated(&fixture, &older, options).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn the_first_schema_of_postgresql_is_brought_up_to_date() {
    let fixture = PostgresFixture::new().await;
    let options = fixture.options("haft_owner");
    let older = format!("{FIRST_SCHEMA} DELETE FROM schema_version WHERE version > 1");
    migrated(&fixture, &older, options).await;
}

/// What is found by these questions.
async fn answers(ledger: &StoredLedger) -> (usize, usize, usize, u64) {
    let all = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    let search = CallQuery {
        search: Some("number".to_owned()),
        ..all.clone()
    };
    let stats = StatsQuery {
        filter: CallFilter::default(),
        by: StatsKey::Agent,
        limit: 10,
    };
    let counted = ledger.stats(&tenant(), &stats).await.unwrap();
    (
        ledger.calls(&tenant(), &all).await.unwrap().len(),
        ledger.calls(&tenant(), &search).await.unwrap().len(),
        ledger.sessions(&tenant(), &[], 10).await.unwrap().len(),
        counted.iter().map(|row| row.calls).sum(),
    )
}

async fn migrated(fixture: &impl EngineFixture, older: &str, owner: LedgerOptions) {
    let ledger = fixture.open().await;
    for number in 0..3 {
        let (_, record) = whole_call(&ledger, "s1", &format!("number {number}")).await;
        record.settled().await.unwrap();
    }
    let before = answers(&ledger).await;
    assert_eq!(before, (3, 3, 1, 3));
    ledger.close().await.unwrap();
    fixture.tamper(older).await;
    // Whoever may changes the schema, and then everybody works with it.
    let (ledger, _) = StoredLedger::open(owner).await.unwrap();
    ledger.close().await.unwrap();
    let ledger = fixture.open().await;
    assert_eq!(answers(&ledger).await, before);
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
    let (_, record) = whole_call(&ledger, "s2", "number 4").await;
    record.settled().await.unwrap();
    assert_eq!(answers(&ledger).await, (4, 4, 2, 4));
    let kept = memory("kept in the new schema");
    ledger.memories().save(kept.clone()).await.unwrap();
    let listed = ledger.memories().list(&tenant(), 10).await.unwrap();
    assert_eq!(listed, [kept]);
    ledger.close().await.unwrap();
}
