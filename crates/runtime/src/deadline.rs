//! How long a call may run, and what ends it: its deadline, silence, or the caller.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use haft_contract::spec::Deadline;
use tokio::time::Instant;

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

/// Tracks the deadline and idle time of one running call.
#[derive(Debug)]
pub(crate) struct RunClock {
    end: Instant,
    idle: Option<Duration>,
    last_sign: Mutex<Instant>,
}

impl RunClock {
    pub(crate) fn start(run_time: Duration, idle: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            end: now + run_time,
            idle,
            last_sign: Mutex::new(now),
        }
    }

    /// Notes activity. Extends the idle limit, never the deadline.
    pub(crate) fn sign_of_life(&self) {
        *self
            .last_sign
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns when the call has run or been silent for too long.
    pub(crate) async fn expired(&self) {
        loop {
            let now = Instant::now();
            let silent_until = self.idle.map(|idle| self.last_sign() + idle);
            let next = silent_until.map_or(self.end, |at| at.min(self.end));
            if next <= now {
                return;
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// The time to the deadline; zero once it has passed.
    pub(crate) fn remaining(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn last_sign(&self) -> Instant {
        *self
            .last_sign
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
}
