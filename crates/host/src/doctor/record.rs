//! The record: whether it opens, and whether every row of it is as it was written.

use haft_contract::{
    TenantId,
    host::{History as _, Verification},
};

use super::check::Check;
use crate::{config::ConfigPlaces, error::unreadable_record, record::Record};

const NAME: &str = "record";

/// Checks the record of a data directory.
pub async fn check(places: &ConfigPlaces) -> Check {
    let record = match Record::open_to_look(places).await {
        Ok(record) => record,
        Err(error) => return Check::stopped(NAME, &error),
    };
    match record.ledger.verify(&TenantId::local()).await {
        Ok(Verification::Intact { records }) => Check::ok(
            NAME,
            format!("{}, {records} records, intact", places.data_dir.display()),
        ),
        Ok(Verification::Broken { sequence, reason }) => Check::fail(
            NAME,
            format!("record {sequence} fails verification: {reason}"),
            "everything before it is intact; keep the files and find out who wrote to them",
        ),
        Err(error) => Check::stopped(NAME, &unreadable_record(&error)),
    }
}
