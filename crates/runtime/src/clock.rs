//! The one place that reads the machine's wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use haft_contract::host::{Clock, Timestamp};

/// The operating system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the `Clock` everybody else uses"
        )]
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(since.map_or(0, |since| {
            i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
        }))
    }
}
