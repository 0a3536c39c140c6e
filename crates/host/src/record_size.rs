//! How large the record is, and making it smaller: what retention removes is removed now. The record of calls
//! is never cut; its outputs and the files' contents before a change are.

use std::{fs, path::Path};

use haft_contract::{
    TenantId,
    host::{Clock as _, History as _, LedgerError, Timestamp},
};
use haft_ledger::{ExpiryReport, Retention, StoredLedger};
use haft_runtime::SystemClock;

use crate::config::ConfigPlaces;

/// The record's directory in the data directory, and that of artifacts in it.
const DIRECTORY: &str = "record";

/// The most workspaces that are counted.
const MAX_WORKSPACES: usize = 10_000;

/// What the record takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSize {
    /// The bytes of the record's own files; absent when it is in a database, which knows its size.
    pub record_bytes: Option<u64>,
    /// The bytes of kept outputs and file contents.
    pub artifact_bytes: u64,
    /// How many calls.
    pub calls: u64,
    /// How many workspaces they were made in.
    pub workspaces: u64,
    /// When the last one was made.
    pub last: Option<Timestamp>,
}

/// Measures the record.
pub async fn measure(
    ledger: &StoredLedger,
    tenant: &TenantId,
    places: &ConfigPlaces,
) -> Result<RecordSize, LedgerError> {
    let workspaces = ledger.workspaces(tenant, MAX_WORKSPACES).await?;
    let artifacts = ledger.expiring_artifacts();
    let artifact_bytes = artifacts.kept_bytes().await?;
    Ok(RecordSize {
        record_bytes: places
            .database
            .is_none()
            .then(|| file_bytes(&places.data_dir.join(DIRECTORY))),
        artifact_bytes,
        calls: workspaces.iter().map(|workspace| workspace.calls).sum(),
        workspaces: u64::try_from(workspaces.len()).unwrap_or(u64::MAX),
        last: workspaces.iter().map(|workspace| workspace.last).max(),
    })
}

/// Removes outputs and file contents that are older than this, now.
pub async fn prune(
    ledger: &StoredLedger,
    retention: Retention,
) -> Result<ExpiryReport, LedgerError> {
    let artifacts = ledger.expiring_artifacts();
    artifacts.expire(SystemClock.now(), retention).await
}

/// The bytes of the files in a directory, without those below.
#[expect(
    clippy::disallowed_methods,
    reason = "looks at the sizes of the record's own files; no tool's files"
)]
fn file_bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let sizes = entries.filter_map(|entry| {
        let metadata = entry.ok()?.metadata().ok()?;
        metadata.is_file().then_some(metadata.len())
    });
    sizes.sum()
}
