//! How often a credential may ask: the generic cell rate algorithm, one moment a credential. Nothing is
//! counted and nothing runs down by itself, so an idle credential costs nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::{
    limits::Limits,
    problem::{Problem, ProblemKind},
};

/// How many credentials are remembered; when there are more, those that are not limited are forgotten.
const MAX_KNOWN: usize = 100_000;

/// The rates of all credentials.
#[derive(Debug)]
pub(crate) struct RequestRates {
    /// What one request uses up.
    interval: Duration,
    /// How far ahead a credential may be.
    tolerance: Duration,
    burst: u32,
    /// When each credential's requests so far will have been paid for.
    due: Mutex<HashMap<String, Instant>>,
}

/// What a credential has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLeft {
    limit: u32,
    remaining: u32,
    /// Until all of it is there again.
    reset: Duration,
}

impl RequestRates {
    pub(crate) fn new(limits: &Limits) -> Self {
        let interval = Duration::from_secs(1) / limits.requests_per_second.max(1);
        let burst = limits.burst.max(1);
        Self {
            interval,
            tolerance: interval * burst,
            burst,
            due: Mutex::default(),
        }
    }

    /// Counts a request of this credential now.
    pub(crate) fn take(&self, credential: &str, now: Instant) -> Result<RateLeft, Problem> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.len() >= MAX_KNOWN {
            due.retain(|_, at| *at > now);
        }
        let paid = due.get(credential).copied().unwrap_or(now).max(now);
        let after = paid + self.interval;
        let ahead = after.duration_since(now);
        if ahead > self.tolerance {
            let wait = ahead.saturating_sub(self.tolerance);
            return Err(self.too_many(wait, ahead));
        }
        due.insert(credential.to_owned(), after);
        Ok(self.left(ahead))
    }

    fn left(&self, ahead: Duration) -> RateLeft {
        let free = self.tolerance.saturating_sub(ahead).as_nanos();
        let remaining = free / self.interval.as_nanos().max(1);
        RateLeft {
            limit: self.burst,
            remaining: u32::try_from(remaining).unwrap_or(self.burst),
            reset: ahead,
        }
    }

    fn too_many(&self, wait: Duration, ahead: Duration) -> Problem {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let left = RateLeft {
            remaining: 0,
            ..self.left(ahead)
        };
        let problem = Problem::new(
            ProblemKind::TooManyRequests,
            "this credential asks more often than it may",
        )
        .hint(format!("try again in {seconds} s"))
        .denied_by("quota")
        .header(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        left.headers()
            .into_iter()
            .fold(problem, |problem, (name, value)| {
                problem.header(name, value)
            })
    }
}

impl RateLeft {
    /// The `RateLimit` headers of an answer.
    pub(crate) fn headers(self) -> Vec<(HeaderName, HeaderValue)> {
        let reset = self.reset.as_secs() + u64::from(self.reset.subsec_nanos() > 0);
        let text = format!(
            "limit={}, remaining={}, reset={reset}",
            self.limit, self.remaining
        );
        HeaderValue::from_str(&text)
            .map(|value| vec![(HeaderName::from_static("ratelimit"), value)])
            .unwrap_or_default()
    }
}

/// What the credential of a request has left, told from where it is counted to where the answer is.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeftOfRate(Arc<Mutex<Option<RateLeft>>>);

impl LeftOfRate {
    pub(crate) fn set(&self, left: RateLeft) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(left);
    }

    pub(crate) fn take(&self) -> Option<RateLeft> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> RequestRates {
        RequestRates::new(&Limits {
            requests_per_second: 10,
            burst: 3,
            ..Limits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_then_one_each_interval() {
        let rates = rates();
        for left in [2, 1, 0] {
            let taken = rates.take("a", Instant::now()).unwrap();
            assert_eq!(taken.remaining, left);
        }
        assert!(rates.take("a", Instant::now()).is_err());
        assert!(
            rates.take("b", Instant::now()).is_ok(),
            "another credential"
        );
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(rates.take("a", Instant::now()).is_ok());
        assert!(rates.take("a", Instant::now()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_costs_nothing() {
        let rates = rates();
        for _ in 0..100 {
            let _ = rates.take("a", Instant::now());
        }
        tokio::time::advance(Duration::from_millis(300)).await;
        for _ in 0..3 {
            assert!(rates.take("a", Instant::now()).is_ok());
        }
    }
}
