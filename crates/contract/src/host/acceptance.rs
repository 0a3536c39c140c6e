//! Calls that one process accepts and another runs.
//!
//! [`Ledger::accept`](super::Ledger::accept) keeps a request until somebody claims it;
//! [`Ledger::claim`](super::Ledger::claim) gives one worker the right to walk it through the stages. A
//! worker that was taken for dead and is not can do no harm: a newer claim counts, and what the older one
//! still writes is kept as evidence and never becomes the outcome. A process that runs what it accepts
//! does both at once with [`Ledger::open`](super::Ledger::open).

use std::fmt;

use super::CallRecord;
use crate::call::CallRequest;

/// Which handing-out of a call a claim belongs to. Whoever hands calls out counts it up each time; the
/// highest one that was claimed holds the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// The first.
    pub const FIRST: Self = Self(1);

    /// The epoch with this number; they are counted from one.
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of a request that was to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// It is on record, and would survive a power cut.
    Accepted,
    /// It was accepted before: the same request under the same id. Nothing was recorded again.
    AcceptedBefore,
}

/// A call that was claimed: the request as it was accepted, and the record to go on with.
pub struct ClaimedCall {
    /// The request, with every value as it arrived.
    pub request: CallRequest,
    /// The open record. It refuses what it is given once a newer claim holds the call.
    pub record: Box<dyn CallRecord>,
}
