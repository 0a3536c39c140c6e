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
            // Every event has a time, so this avoids the wide arithmetic of `as_micros`.
            let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            let micros = i64::from(since.subsec_micros());
            seconds.saturating_mul(1_000_000).saturating_add(micros)
        }))
    }
}
