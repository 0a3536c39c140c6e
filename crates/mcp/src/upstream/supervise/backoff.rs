//! How long a failed server is left alone.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

/// Grows from the first delay to the longest, and stays there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backoff {
    pub(super) first: Duration,
    pub(super) longest: Duration,
}

impl Backoff {
    /// The delay after this many failures in a row, with jitter so that servers that failed
    /// together do not restart together.
    pub(super) fn delay(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.first.saturating_mul(1 << doublings).min(self.longest);
        // A new hasher's keys are random, which is enough for jitter.
        let spread = RandomState::new().hash_one(failures) % 1000;
        let spread = u32::try_from(spread).unwrap_or(0);
        whole / 2 + whole / 2 * spread / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_16_each_failure_waits_longer_up_to_the_longest_and_never_gives_up() {
        let backoff = Backoff {
            first: Duration::from_millis(500),
            longest: Duration::from_mins(5),
        };
        for (failures, whole) in [
            (1, 500),
            (2, 1000),
            (5, 8000),
            (11, 300_000),
            (4_000_000, 300_000),
        ] {
            let whole = Duration::from_millis(whole);
            for _ in 0..50 {
                let delay = backoff.delay(failures);
                assert!(
                    delay >= whole / 2 && delay <= whole,
                    "{failures}: {delay:?}"
                );
            }
        }
    }
}
