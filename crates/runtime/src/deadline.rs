//! How long a call may run, and what ends it: its deadline, silence, or the caller.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::spec::Deadline;
use tokio::{sync::Notify, time::Instant};

/// The run time of a call: what its input asks for or the tool's default, never more than the
/// tool's maximum, the caller's limit or the runtime's hard limit.
pub(crate) fn run_time(
    deadline: Deadline,
    input: Option<Duration>,
    caller: Option<Duration>,
    hard: Duration,
) -> Duration {
    let asked = input.unwrap_or(deadline.default).min(deadline.maximum);
    caller.map_or(asked, |caller| asked.min(caller)).min(hard)
}

/// Tracks the deadline and idle time of one running call. It stands still while it is held.
#[derive(Debug)]
pub(crate) struct RunClock {
    idle: Option<Duration>,
    times: Mutex<RunTimes>,
    /// Notified when it goes on.
    goes_on: Notify,
}

#[derive(Debug)]
struct RunTimes {
    end: Instant,
    last_sign: Instant,
    /// How many hold it, and since when.
    holds: usize,
    held_since: Option<Instant>,
    /// How long it was held before.
    held: Duration,
}

/// Keeps a clock from running. Dropping the last one lets it go on.
pub(crate) struct ClockHold<'a>(&'a RunClock);

impl RunClock {
    pub(crate) fn start(run_time: Duration, idle: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            idle,
            times: Mutex::new(RunTimes {
                end: now + run_time,
                last_sign: now,
                holds: 0,
                held_since: None,
                held: Duration::ZERO,
            }),
            goes_on: Notify::new(),
        }
    }

    /// Stops the clock, while a person is asked.
    pub(crate) fn hold(&self) -> ClockHold<'_> {
        let mut times = self.times();
        times.holds += 1;
        times.held_since.get_or_insert_with(Instant::now);
        ClockHold(self)
    }

    /// For how long it was held in all.
    pub(crate) fn held(&self) -> Duration {
        let times = self.times();
        times.held
            + times
                .held_since
                .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes activity. Extends the idle limit, never the deadline.
    pub(crate) fn sign_of_life(&self) {
        self.times().last_sign = Instant::now();
    }

    /// Returns when the call has run or been silent for too long.
    pub(crate) async fn expired(&self) {
        loop {
            let mut goes_on = std::pin::pin!(self.goes_on.notified());
            goes_on.as_mut().enable();
            let next = {
                let times = self.times();
                let silent_until = self.idle.map(|idle| times.last_sign + idle);
                let next = silent_until.map_or(times.end, |at| at.min(times.end));
                times.held_since.is_none().then_some(next)
            };
            match next {
                None => goes_on.await,
                Some(next) if next <= Instant::now() => return,
                Some(next) => tokio::time::sleep_until(next).await,
            }
        }
    }

    /// The time to the deadline; zero once it has passed.
    pub(crate) fn remaining(&self) -> Duration {
        let times = self.times();
        let now = times.held_since.unwrap_or_else(Instant::now);
        times.end.saturating_duration_since(now)
    }

    fn times(&self) -> MutexGuard<'_, RunTimes> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClockHold<'_> {
    fn drop(&mut self) {
        let mut times = self.0.times();
        times.holds -= 1;
        if times.holds > 0 {
            return;
        }
        if let Some(since) = times.held_since.take() {
            let held = since.elapsed();
            times.held += held;
            times.end += held;
            times.last_sign += held;
        }
        drop(times);
        self.0.goes_on.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_exceeds_the_tools_maximum_or_the_hard_limit() {
        let deadline = Deadline::new(SECOND * 30, SECOND * 60);
        let check = |input: Option<u32>, caller: Option<u32>, expect: u32| {
            let of = |seconds: u32| SECOND * seconds;
            let got = run_time(deadline, input.map(of), caller.map(of), SECOND * 50);
            assert_eq!(got, SECOND * expect);
        };
        check(None, None, 30);
        check(Some(40), None, 40);
        check(Some(600), None, 50);
        check(None, Some(5), 5);
        check(Some(40), Some(600), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_the_idle_limit_but_never_the_deadline() {
        let clock = Arc::new(RunClock::start(SECOND * 10, Some(SECOND * 2)));
        let started = Instant::now();
        let talking = Arc::clone(&clock);
        let talk = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SECOND).await;
                talking.sign_of_life();
            }
        });
        clock.expired().await;
        assert_eq!(started.elapsed(), SECOND * 10);
        talk.abort();

        let clock = RunClock::start(SECOND * 10, Some(SECOND * 2));
        let started = Instant::now();
        clock.expired().await;
        assert_eq!(started.elapsed(), SECOND * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_held_stands_still() {
        let clock = RunClock::start(SECOND * 10, Some(SECOND * 2));
        let started = Instant::now();
        let asks = async {
            tokio::time::sleep(SECOND).await;
            let one = clock.hold();
            let other = clock.hold();
            tokio::time::sleep(SECOND * 600).await;
            drop(one);
            assert_eq!(clock.remaining(), SECOND * 9);
            tokio::time::sleep(SECOND * 600).await;
            drop(other);
            assert_eq!(clock.held(), SECOND * 1200);
        };
        tokio::join!(clock.expired(), asks);
        assert_eq!(started.elapsed(), SECOND * 1202);
    }
}
