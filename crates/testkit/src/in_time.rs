//! Promises in wall time, held at the printed number on machines of any speed.
//!
//! A machine that stops now and then delays one measurement and not the next; code that waits too
//! long is late every time. So a measurement is made again while it is late, a few times, and every
//! figure is printed beside the number it is held to. They are taken with
//! [`machine_clock`](crate::machine_clock), which does not count while the machine stands still.
//! Tests that use this are given the machine for themselves by `.config/nextest.toml`.

use std::time::Duration;

/// How often something is measured at most.
const ROUNDS: usize = 5;

/// Measures until one round is in time.
///
/// # Panics
/// When none of them is.
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
