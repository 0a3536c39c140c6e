//! The cases about artifacts that every ledger passes, on object storage.

use haft_contract::TenantId;
use haft_ledger::StoredLedger;
use haft_testkit::suite::ledger;

use super::ObjectFixture;
use crate::suite::{SuiteFixture, SuiteRecord};

impl SuiteRecord for ObjectFixture {
    async fn open(&self) -> StoredLedger {
        self.open().await
    }

    async fn tamper(&self, _: &TenantId, _: u64) {
        unreachable!("no case about artifacts changes a record");
    }

    async fn edit(&self, _: &str) {
        unreachable!("no case about artifacts changes a record");
    }

    fn kept_artifacts(&self) -> usize {
        self.kept()
    }
}

async fn fixture() -> SuiteFixture<ObjectFixture> {
    SuiteFixture::on(ObjectFixture::new()).await
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn an_artifact_comes_back_as_it_was() {
    ledger::an_artifact_comes_back_as_it_was(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn the_same_bytes_are_one_artifact() {
    ledger::the_same_bytes_are_one_artifact(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn artifacts_are_read_in_ranges() {
    ledger::artifacts_are_read_in_ranges(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn an_unfinished_artifact_leaves_nothing() {
    ledger::an_unfinished_artifact_leaves_nothing(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn a_missing_artifact_is_not_found() {
    ledger::a_missing_artifact_is_not_found(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn an_artifact_survives_reopening() {
    ledger::an_artifact_survives_reopening(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn spilled_output_belongs_to_its_session() {
    ledger::spilled_output_belongs_to_its_session(fixture().await).await;
}

#[tokio::test]
#[ignore = "ci: needs moto, which speaks the S3 protocol"]
async fn sharing_a_session_id_shares_nothing() {
    ledger::sharing_a_session_id_shares_nothing(fixture().await).await;
}
