//! A clock that stops while the machine does.
//!
//! A promise in wall time assumes a machine that runs. A machine that is paused by whoever shares
//! it, or is overloaded, delays the code and the test alike, and says nothing about either. So a
//! thread that needs the same machine advances this clock: it sleeps for a tick and adds the time
//! passed, but never more than two ticks. Code that waits too long is measured in full, because
//! waiting leaves the machine free to tick.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const TICK: Duration = Duration::from_millis(10);

/// The most one tick can add.
const MOST: Duration = Duration::from_millis(20);

/// The time since the clock was first read.
#[expect(clippy::missing_panics_doc, reason = "a test without threads fails")]
#[expect(clippy::disallowed_methods, reason = "a thread of its own sleeps")]
pub fn now() -> Duration {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    static RUNS: OnceLock<()> = OnceLock::new();
    RUNS.get_or_init(|| {
        let tick = || {
            loop {
                let before = Instant::now();
                thread::sleep(TICK);
                let passed = before.elapsed().min(MOST).as_micros();
                PASSED.fetch_add(u64::try_from(passed).unwrap_or(0), Ordering::Relaxed);
            }
        };
        let clock = thread::Builder::new().name("machine clock".to_owned());
        clock.spawn(tick).expect("a thread");
    });
    Duration::from_micros(PASSED.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it waits for the clock")]
    fn waiting_is_seen_and_never_more_than_passed() {
        let (wall, clock) = (Instant::now(), now());
        // However slow the machine is, a long enough sleep lets it tick.
        while now().saturating_sub(clock) < Duration::from_millis(500) {
            thread::sleep(TICK);
        }
        let seen = now().saturating_sub(clock);
        assert!(seen <= wall.elapsed(), "{seen:?} of {:?}", wall.elapsed());
    }
}
