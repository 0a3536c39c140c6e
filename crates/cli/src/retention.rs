//! Removes artifacts that are older or larger than the operator wants kept, at most once a day and
//! only after a command has done its work.

use std::{path::Path, time::Duration};

use haft_contract::host::{Clock as _, Timestamp};
use haft_ledger::SqliteLedger;
use haft_runtime::SystemClock;

use crate::config::private;

/// How often old artifacts are looked for.
const EVERY: Duration = Duration::from_hours(24);

/// The file that says when they were last looked for.
const STAMP: &str = "retention.stamp";

/// The longest stamp that is read.
const MAX_STAMP_BYTES: u64 = 32;

/// What is kept of spilled output and of files before they were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// How long.
    pub(crate) days: u64,
    /// How much in all.
    pub(crate) bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            days: 30,
            bytes: 10 * 1024 * 1024 * 1024,
        }
    }
}

/// Removes what need not be kept any longer, if that was not done today. A failure is logged; the
/// command that was run has succeeded all the same.
pub(crate) async fn apply(ledger: &SqliteLedger, data_dir: &Path, retention: Retention) {
    let now = SystemClock.now();
    let stamp = data_dir.join(STAMP);
    if last(&stamp).is_some_and(|last| now.since(last) < EVERY && now >= last) {
        return;
    }
    let older_than = Duration::from_hours(retention.days.saturating_mul(24));
    let artifacts = ledger.file_artifacts();
    match artifacts.expire(now, older_than, retention.bytes).await {
        Ok(expired) => tracing::debug!(?expired, "old artifacts were removed"),
        Err(error) => tracing::warn!(%error, "old artifacts could not be removed"),
    }
    if let Err(error) = private::replace(&stamp, now.0.to_string().as_bytes()) {
        tracing::warn!(%error, "the time of the last removal could not be noted");
    }
}

fn last(stamp: &Path) -> Option<Timestamp> {
    let bytes = private::read(stamp, MAX_STAMP_BYTES).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    text.trim().parse().ok().map(Timestamp)
}
