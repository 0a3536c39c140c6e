//! A clock that stands still while the machine does.
//!
//! A promise in wall time speaks of a machine that runs. One that is stopped by whoever shares it,
//! or has far too much to do, delays the code and the test alike, and says nothing about either. So
//! this clock is advanced by a thread that needs the same machine: it sleeps for a tick and adds
//! what passed, but never more than two ticks. Whoever waits too long in code is seen by it
//! in full, because waiting leaves the machine free to tick.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const TICK: Duration = Duration::from_millis(10);

/// The most that one tick can add.
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
        // However slow the machine is, a sleep that is long enough lets it tick.
        while now().saturating_sub(clock) < Duration::from_millis(500) {
            thread::sleep(TICK);
        }
        let seen = now().saturating_sub(clock);
        assert!(seen <= wall.elapsed(), "{seen:?} of {:?}", wall.elapsed());
    }
}
