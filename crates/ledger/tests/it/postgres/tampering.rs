//! AU-01, AU-05, AU-08 and AU-11 on PostgreSQL: whatever is done to the stored record by whoever owns it, it is
//! named, as on SQLite.

use haft_ledger::StoredLedger;

use super::PostgresFixture;
use crate::{
    approvals,
    chain::{self, lost, ten_rows},
    engine::EngineFixture as _,
    secrets,
    support::whole_call,
};

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_01_canaries_are_in_no_byte_of_the_database() {
    secrets::canaries_are_in_no_byte(&PostgresFixture::new().await).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_05_an_edited_row_is_named() {
    let engine = PostgresFixture::new().await;
    chain::edited_record(&engine).await;
    chain::every_column(&engine).await;
    chain::changed_name(&engine).await;
    chain::list_of_sessions(&engine).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_05_rows_that_were_deleted_reordered_or_added_are_named() {
    let engine = PostgresFixture::new().await;
    chain::deleted_record(&engine).await;
    chain::reordered_records(&engine).await;
    chain::row_that_nobody_wrote(&engine).await;
    chain::open_call(&engine).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_05_a_tail_that_was_cut_off_or_forged_is_named() {
    let engine = PostgresFixture::new().await;
    chain::truncated_tail(&engine).await;
    chain::forged_end(&engine).await;
    chain::forged_checkpoint(&engine).await;
    chain::ends_of_all_writers(&engine).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_05_ordinary_rows_of_any_shape_are_intact() {
    chain::ordinary_records(&PostgresFixture::new().await).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_05_edited_questions_and_grants_are_void() {
    let engine = PostgresFixture::new().await;
    approvals::edited_question(&engine).await;
    approvals::older_copy_of_an_approval(&engine.another().await).await;
    approvals::edited_grant(&engine.another().await).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_08_a_row_of_a_database_has_redacted_forms_of_secret_arguments_only() {
    secrets::secret_arguments_are_redacted_in_a_row(&PostgresFixture::new().await).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_11_a_database_that_ends_before_its_mark_is_named() {
    chain::ends_before_its_mark(&PostgresFixture::new().await).await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_11_an_older_copy_of_a_database_is_named() {
    let fixture = ten_rows(&PostgresFixture::new().await).await;
    let older = fixture.copy();
    let ledger = fixture.open().await;
    let (_, record) = whole_call(&ledger, "s1", "one more").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
    // The control: untouched, it is whole.
    let (ledger, recovery) = fixture.recover().await;
    assert!(recovery.lost.is_empty(), "{:?}", recovery.lost);
    ledger.close().await.unwrap();
    fixture.replace_with(&older);
    lost(&fixture, "and has 10").await;
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn au_11_a_database_that_was_emptied_is_named() {
    let fixture = ten_rows(&PostgresFixture::new().await).await;
    fixture.sql("DROP SCHEMA haft CASCADE");
    let owner = fixture.options("haft_owner");
    let (ledger, recovery) = StoredLedger::open(owner).await.unwrap();
    assert!(!recovery.lost.is_empty());
    ledger.close().await.unwrap();
    lost(&fixture, "and has 0").await;
}
