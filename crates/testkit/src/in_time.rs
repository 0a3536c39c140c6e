//! Promises in wall time, checked against the printed number on machines of any speed.
//!
//! A machine that pauses now and then delays one measurement and not the next; code that waits too
//! long is late every time. So a late measurement is repeated, a few times, and every figure is
//! printed next to its limit. Measurements use [`machine_clock`](crate::machine_clock), which does
//! not count while the machine is paused. `.config/nextest.toml` gives tests that use this the
//! machine for themselves.

use std::time::Duration;

/// The most measurements.
const ROUNDS: usize = 5;

/// Measures until one round is in time.
///
/// # Panics
/// If no round is.
#[expect(clippy::print_stdout, reason = "the figures of a test are printed")]
pub async fn in_time(what: &str, limit: Duration, measure: impl AsyncFn() -> Duration) {
    let mut took = Vec::new();
    while took.len() < ROUNDS && took.iter().all(|took| *took > limit) {
        took.push(measure().await);
    }
    println!("{what}: {took:.0?}, promised {limit:?}");
    assert!(
        took.iter().any(|took| *took <= limit),
        "{what}: {took:.0?} instead of {limit:?}"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    #[tokio::test]
    async fn a_machine_that_was_late_once_is_forgiven() {
        let seconds = AtomicU64::new(3);
        in_time("sooner each time", LIMIT, async || {
            Duration::from_secs(seconds.fetch_sub(1, Ordering::Relaxed))
        })
        .await;
        assert_eq!(seconds.into_inner(), 1, "measured until it is in time");
    }

    #[tokio::test]
    #[should_panic(expected = "late: [3s, 3s, 3s, 3s, 3s] instead of 2s")]
    async fn code_that_is_always_late_is_not() {
        in_time("late", LIMIT, async || Duration::from_secs(3)).await;
    }
}
