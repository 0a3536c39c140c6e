//! A record as a stream of typed rows, with names in place of a database's numbers: what `transfer/`
//! reads and `writer/import.rs` writes.

use std::{fmt, sync::Arc};

use haft_contract::{TenantId, host::Timestamp};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    chain::{Hash, Head},
    directory::PrivateDirectory,
    store::Store,
};

/// The most writers one stream names.
pub(crate) const MAX_WRITERS: usize = 65_536;

/// The largest position and number in a chain. Far more than there are, and far from where adding to
/// them overflows.
pub(crate) const MAX_NUMBER: i64 = 1 << 53;

/// What a stream begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransferBegin {
    pub(crate) tenant: TenantId,
    /// Absent if it has everything.
    pub(crate) since: Option<Timestamp>,
    /// Where the chains stand that began before it, by writer.
    pub(crate) starts: Vec<(String, Head)>,
}

/// One row of the record, with names in place of a database's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransferRow {
    pub(crate) position: i64,
    pub(crate) writer: Arc<str>,
    pub(crate) sequence: u64,
    pub(crate) call: Uuid,
    pub(crate) part: i64,
    pub(crate) listed: i64,
    /// Who asked, in stored form.
    pub(crate) principal: Arc<str>,
    pub(crate) at: i64,
    pub(crate) terminal: Option<i64>,
    pub(crate) form: i64,
    pub(crate) body: Vec<u8>,
    pub(crate) hash: Hash,
}

/// What a stream ends with. Without it, something was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransferEnd {
    pub(crate) rows: u64,
    pub(crate) chains: Vec<SignedEnd>,
}

/// The end of one writer's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedEnd {
    pub(crate) writer: String,
    pub(crate) head: Head,
    pub(crate) mac: Vec<u8>,
}

/// What was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Imported {
    /// Calls that the record has now.
    pub calls: u64,
    /// Rows that were written.
    pub records: u64,
    /// Calls whose end the export does not have; they are `unknown` now.
    pub unknown: u64,
    /// Rows of calls that began before the export does, which were left out.
    pub left_out: u64,
    /// Whether its signatures were checked with a key.
    #[serde(rename = "signed")]
    pub is_signed: bool,
}

/// A record that is carried elsewhere as a whole.
pub(crate) struct MigrationSource {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) directory: Arc<PrivateDirectory>,
    /// Where the names of its writers are.
    pub(crate) names: Arc<PrivateDirectory>,
    /// The name of the one that carries it.
    pub(crate) writer: String,
    pub(crate) key: [u8; 32],
}

/// What is said when nobody vouches for it.
pub(crate) const UNSIGNED: &str =
    "; who wrote them is not known, because the signatures were not checked";

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls were imported, in {} records",
            self.calls, self.records
        )?;
        if self.unknown > 0 {
            write!(
                f,
                "; {} of them had no end and are `unknown` now",
                self.unknown
            )?;
        }
        if self.left_out > 0 {
            let rows = self.left_out;
            write!(
                f,
                "; {rows} records of calls that began before were left out"
            )?;
        }
        f.write_str(if self.is_signed { "" } else { UNSIGNED })
    }
}
