//! Writes a tenant's record as text. A record that is not as it was written is not exported: that
//! would sign it.

use std::{
    fmt,
    io::{BufWriter, Write},
};

use haft_contract::{
    TenantId,
    host::{LedgerError, LedgerErrorKind, Timestamp},
};

use serde::Serialize;

use super::{TransferCheck, TransferError, TransferRow, source::TransferSource, text::TextWriter};
use crate::store::Store;

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// Rows of the record.
    pub records: u64,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records were exported", self.records)
    }
}

/// Writes the rows that begin with the first call of this moment or later.
pub(crate) async fn export(
    store: &dyn Store,
    tenant: &TenantId,
    key: &[u8; 32],
    since: Option<Timestamp>,
    out: Box<dyn Write + Send>,
    progress: &(dyn Fn(u64, u64) + Send + Sync),
) -> Result<Exported, TransferError> {
    let (mut source, begin) = TransferSource::open(store, tenant, since).await?;
    let newest = u64::try_from(source.newest).unwrap_or(0);
    let mut pipe = run_blocking(move || {
        let text = TextWriter::begin(BufWriter::new(out), &begin)?;
        let check = TransferCheck::new(&begin)?;
        Ok(Pipe { text, check })
    })
    .await?;
    loop {
        let rows = source.next().await?;
        let Some(last) = rows.last() else {
            break;
        };
        let reached = u64::try_from(last.position).unwrap_or(0);
        // Hashing and writing do not belong on the threads that serve others.
        pipe = run_blocking(move || pipe.write(&rows)).await?;
        progress(reached, newest);
    }
    let end = source.end().await?;
    let (records, key) = (end.rows, *key);
    run_blocking(move || {
        let signed = pipe.check.end(&end, Some(&key));
        signed.map_err(|_| TransferError::Ledger(unsigned_end()))?;
        pipe.text.end(&end, &key)
    })
    .await?;
    Ok(Exported { records })
}

struct Pipe {
    text: TextWriter<BufWriter<Box<dyn Write + Send>>>,
    check: TransferCheck,
}

impl Pipe {
    fn write(mut self, rows: &[TransferRow]) -> Result<Self, TransferError> {
        for row in rows {
            self.check.row(row)?;
            self.text.row(row)?;
        }
        Ok(self)
    }
}

fn unsigned_end() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Corrupt,
        "the record does not end where it was signed; `haft log verify` names the place",
    )
}

/// Runs what would keep a thread of the runtime from serving others.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    let given_up = |_| LedgerError::new(LedgerErrorKind::Unavailable, "it was given up");
    tokio::task::spawn_blocking(work).await.map_err(given_up)?
}
