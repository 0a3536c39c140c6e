//! A wall clock that moves only when a test moves it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use haft_contract::host::{Clock, Timestamp};

/// The moment a [`TestClock`] starts at: 2023-11-14T22:13:20Z.
pub const START: Timestamp = Timestamp(1_700_000_000_000_000);

/// A clock under a test's control. Clones show the same time.
#[derive(Debug, Clone)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock set to [`START`].
    pub fn new() -> Self {
        Self::at(START)
    }

    /// A clock set to a moment.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.store(self.now().after(by).0, Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
