//! Calls that one process accepts and another runs.
//!
//! [`Ledger::accept`](super::Ledger::accept) keeps a request until a worker claims it;
//! [`Ledger::claim`](super::Ledger::claim) gives one worker the right to take it through the
//! stages. A worker that was wrongly presumed dead can do no harm: the newer claim counts, and
//! anything the older one still writes is kept as evidence and never becomes the outcome. A process
//! that runs what it accepts does both at once with [`Ledger::open`](super::Ledger::open).

use std::fmt;

use super::CallRecord;
use crate::call::CallRequest;

/// Which dispatch of a call a claim belongs to. The dispatcher increments it each time; the highest
/// claimed epoch holds the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u32);

impl Epoch {
    /// The first epoch.
    pub const FIRST: Self = Self(1);

    /// The epoch with this number; they are counted from 1.
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The epoch after this one.
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

/// The result of accepting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// It is on record, and would survive a power cut.
    Accepted,
    /// The same request was already accepted under the same id. Nothing was recorded again.
    AcceptedBefore,
}

/// A claimed call: the request as accepted, and the record to continue.
pub struct ClaimedCall {
    /// The request, with every value as it arrived.
    pub request: CallRequest,
    /// The open record. It refuses writes once a newer claim holds the call.
    pub record: Box<dyn CallRecord>,
}
