//! Time as the machine let it pass, for promises such as "a cancel ends within a second".
//!
//! A machine that takes its processors away for a second at a time breaks every such promise and
//! says nothing about the code. A thread that does nothing but wake up tells how much was taken:
//! what it oversleeps, nobody could have used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often the thread wakes.
const BEAT: Duration = Duration::from_millis(5);

/// Runs from its making until it is dropped.
#[derive(Debug)]
pub struct Stopwatch {
    begun: Instant,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// When the thread last woke, in microseconds after the beginning.
    woke: AtomicU64,
    /// What it overslept until then.
    overslept: AtomicU64,
    over: AtomicBool,
}

impl Stopwatch {
    /// Starts to count.
    pub fn start() -> Self {
        let begun = Instant::now();
        let shared = Arc::<Shared>::default();
        let watched = Arc::clone(&shared);
        thread::spawn(move || {
            while !watched.over.load(Ordering::Relaxed) {
                thread::park_timeout(BEAT);
                let now = micros(begun.elapsed());
                let slept = now - watched.woke.swap(now, Ordering::Relaxed);
                watched.overslept.fetch_add(late(slept), Ordering::Relaxed);
            }
        });
        Self { begun, shared }
    }

    /// The time since the start, without what the machine took.
    pub fn elapsed(&self) -> Duration {
        let now = micros(self.begun.elapsed());
        let asleep = now.saturating_sub(self.shared.woke.load(Ordering::Relaxed));
        let taken = self.shared.overslept.load(Ordering::Relaxed) + late(asleep);
        Duration::from_micros(now.saturating_sub(taken))
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

/// What a sleep of so many microseconds had too much.
fn late(slept: u64) -> u64 {
    slept.saturating_sub(micros(BEAT))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often the machine stops: in the end it counts.
    #[test]
    fn what_passes_counts_and_never_more() {
        let enough = Duration::from_millis(100);
        let watch = Stopwatch::start();
        while watch.elapsed() < enough {
            thread::park_timeout(BEAT);
        }
        assert!(watch.begun.elapsed() >= enough);
    }

    #[test]
    fn what_is_overslept_does_not_count() {
        let beat = micros(BEAT);
        assert_eq!(late(beat + 1_000_000), 1_000_000);
        assert_eq!((late(beat), late(0)), (0, 0));
    }
}
