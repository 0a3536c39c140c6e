//! How much is done for one document, in steps that each take about as long as reading a byte. What a
//! file makes its reader do is not bounded by its length: one stream can be shown a million times.

use std::cell::Cell;

/// The steps for one document: many times what ordinary ones take. What is slower than these steps say
/// ends with the process that reads, which has a limit on its processor time.
const STEPS: u64 = 60_000_000;

/// The steps that are left.
#[derive(Debug)]
pub(super) struct WorkBudget(Cell<u64>);

impl Default for WorkBudget {
    fn default() -> Self {
        Self(Cell::new(STEPS))
    }
}

impl WorkBudget {
    /// Takes so many steps, and says whether there were as many.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.0.get();
        let after = left.saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
        self.0.set(after);
        after > 0
    }

    /// Whether nothing more is done.
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}
