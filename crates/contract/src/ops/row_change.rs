//! What a statement did to rows of a database, kept so that it can be taken back.
//!
//! Values are exact: as a server writes them, or with the kind of storage they have. They are never
//! shown to a model. [`encode_row_change`](super::encode_row_change) writes the form they are kept in.

use std::{fmt, time::Duration};

use tokio_util::sync::CancellationToken;

use super::OpsError;
use crate::future::BoxFuture;

/// What one statement did to the rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The configured source.
    pub source: String,
    /// The table's schema, unless it is the source's usual one.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The columns of its primary key.
    pub key: Vec<String>,
    /// The columns whose values are kept. The key is among them where whole rows are.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<ChangedRow>,
}

/// One row before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRow {
    /// The values of the key, which did not change.
    pub key: Vec<KeptValue>,
    /// The values of the columns before; absent if there was no such row.
    pub before: Option<Vec<KeptValue>>,
    /// The values after; absent if there is no such row any more.
    pub after: Option<Vec<KeptValue>>,
}

/// A value as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptValue {
    /// Nothing.
    Null,
    /// A text; where the database has types of its own, the value as it writes it.
    Text(String),
    /// An integer of a database without types of its own.
    Integer(i64),
    /// The bits of a floating-point number of such a database.
    Real(u64),
    /// Bytes of such a database.
    Blob(Vec<u8>),
}

impl RowChange {
    /// Whether whole rows are kept, because some came or went, rather than some of their columns.
    pub fn has_whole_rows(&self) -> bool {
        self.key.iter().all(|column| self.columns.contains(column))
    }

    /// What takes this back, for the rows at these places.
    #[must_use]
    pub fn inverse(&self, places: &[usize]) -> Self {
        let rows = places.iter().filter_map(|place| self.rows.get(*place));
        let rows = rows.map(|row| ChangedRow {
            key: row.key.clone(),
            before: row.after.clone(),
            after: row.before.clone(),
        });
        Self {
            rows: rows.collect(),
            source: self.source.clone(),
            schema: self.schema.clone(),
            table: self.table.clone(),
            key: self.key.clone(),
            columns: self.columns.clone(),
        }
    }

    /// The key of a row, for a person: `id 5, place x`.
    pub fn named(&self, row: &ChangedRow) -> String {
        let named = self.key.iter().zip(&row.key);
        let named: Vec<String> = named
            .map(|(column, value)| format!("{column} {value}"))
            .collect();
        named.join(", ")
    }
}

/// The longest value that is shown, in characters.
const MAX_SHOWN: usize = 64;

impl fmt::Display for KeptValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Text(text) => {
                let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
                f.write_str(&visible.take(MAX_SHOWN).collect::<String>())
            }
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Real(bits) => write!(f, "{}", f64::from_bits(*bits)),
            Self::Blob(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}

/// How much of a change is kept. A larger one cannot be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptRowsLimit {
    /// The most rows.
    pub rows: u64,
    /// The most bytes.
    pub bytes: u64,
}

/// Keeps what a change did to rows. The runtime's own; a tool has nothing to keep.
pub trait KeepRows: Send {
    /// How much it keeps.
    fn limit(&self) -> KeptRowsLimit;

    /// Keeps it, before the change is committed. If this fails, nothing is changed.
    fn keep(&mut self, change: RowChange) -> BoxFuture<'_, Result<(), OpsError>>;
}

/// Keeps nothing: for tools, since the runtime keeps what they do.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeptByTheRuntime;

impl KeepRows for KeptByTheRuntime {
    fn limit(&self) -> KeptRowsLimit {
        KeptRowsLimit { rows: 0, bytes: 0 }
    }

    fn keep(&mut self, _: RowChange) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async { Ok(()) })
    }
}

/// A change that is to be taken back.
#[derive(Debug, Clone)]
pub struct PutBackRows<'a> {
    /// The change.
    pub change: &'a RowChange,
    /// Whether it is, or only looked at.
    pub run: PutBackRun,
    /// How long it may take, the wait for a connection included.
    pub within: Duration,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

/// Whether rows are put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutBackRun {
    /// They are.
    ForReal,
    /// It is only said which of them would be.
    Dry,
}

/// What became of the rows of a change. Each is at one of these places.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsPutBack {
    /// The rows that are as before again, or would be, by their places in the change.
    pub restored: Vec<usize>,
    /// The rows that were as before already.
    pub unchanged: Vec<usize>,
    /// The rows that are not what the change left, and were not touched, with the reason.
    pub conflicts: Vec<(usize, &'static str)>,
    /// Why this cannot be taken back in turn, if it cannot.
    pub not_kept: Option<String>,
}
