//! What a ledger counts while it is open.

use std::sync::atomic::AtomicU64;

/// What the ledger has counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Transactions committed.
    pub commits: u64,
    /// Rows written.
    pub records: u64,
    /// Settlements that were ignored because the call had already ended.
    pub second_settlements: u64,
    /// Times the store failed.
    pub failures: u64,
    /// Grants read for decisions.
    pub grants_read: u64,
}

/// The counters as the writer and the records keep them.
#[derive(Debug, Default)]
pub(crate) struct LedgerCounters {
    pub(crate) commits: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) second_settlements: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) grants_read: AtomicU64,
}
