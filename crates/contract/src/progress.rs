//! The progress of a call, typed by the tool and bounded on the way out.
//!
//! Progress belongs to a call, never to a tool object: two simultaneous calls have two sinks.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;

/// How far a call has got. `detail` is the tool's own typed part.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<D = NoProgress> {
    /// Steps done.
    pub step: u64,
    /// The total number of steps, if known.
    pub total: Option<u64>,
    /// What it is doing, for a person.
    pub status: String,
    /// The estimated time left, if known.
    pub remaining: Option<Duration>,
    /// The tool's own typed part.
    pub detail: D,
}

/// The progress type of a tool without a typed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct NoProgress {}

impl Progress<NoProgress> {
    /// Progress without a typed part.
    pub fn of(step: u64, total: Option<u64>, status: impl Into<String>) -> Self {
        Self {
            step,
            total,
            status: status.into(),
            remaining: None,
            detail: NoProgress {},
        }
    }
}

impl<D> Progress<D> {
    /// Adds or replaces the tool's typed part.
    pub fn detail<E>(self, detail: E) -> Progress<E> {
        Progress {
            step: self.step,
            total: self.total,
            status: self.status,
            remaining: self.remaining,
            detail,
        }
    }

    /// Estimates the remaining time from the time spent so far, assuming an even pace.
    #[must_use]
    pub fn elapsed(mut self, elapsed: Duration) -> Self {
        self.remaining = match self.total {
            Some(total) if self.step > 0 => {
                #[expect(clippy::cast_precision_loss, reason = "an estimate for a person")]
                let ratio = total.saturating_sub(self.step) as f64 / self.step as f64;
                Duration::try_from_secs_f64(elapsed.as_secs_f64() * ratio).ok()
            }
            Some(_) | None => None,
        };
        self
    }

    /// How much is done, from 0 to 100; `None` if the total is not known. Never above 100, and 100
    /// for a total of 0, which is finished before it starts.
    pub fn percentage(&self) -> Option<u8> {
        let total = self.total?;
        if total == 0 || self.step >= total {
            return Some(100);
        }
        let share = u128::from(self.step) * 100 / u128::from(total);
        u8::try_from(share).ok()
    }
}

/// How far a call had got at one moment, as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgressNote {
    /// The steps done and the total, if the tool counts any.
    pub steps: Option<(u64, Option<u64>)>,
    /// What the tool said about its work, or its latest line of output, or its newest item.
    pub message: String,
    /// The time left as the tool estimates it.
    pub remaining: Option<Duration>,
    /// The time to the deadline.
    pub deadline_in: Duration,
}

/// Progress with the typed part rendered to JSON, as events carry it.
pub type RenderedProgress = Progress<Value>;

/// Receives a call's progress. Implemented by the runtime, which keeps only the newest report.
pub trait ReportProgress: Send + Sync {
    /// Takes one report. Must not block.
    fn report(&self, progress: RenderedProgress);
}

/// The typed handle a tool reports to.
pub struct ProgressSink<D> {
    to: Arc<dyn ReportProgress>,
    typed: PhantomData<fn(D)>,
}

impl<D: Serialize> ProgressSink<D> {
    /// A sink that renders each report and passes it on.
    pub fn new(to: Arc<dyn ReportProgress>) -> Self {
        Self {
            to,
            typed: PhantomData,
        }
    }

    /// Reports progress. Reports may be merged; only the newest is sure to be seen.
    pub fn report(&self, progress: Progress<D>) {
        // If JSON cannot hold the typed part (a map with odd keys), only that part is lost.
        let detail = serde_json::to_value(&progress.detail).unwrap_or(Value::Null);
        self.to.report(progress.detail(detail));
    }
}

impl<D> ProgressSink<D> {
    /// The same sink for another type of report.
    pub(crate) fn typed<E>(self) -> ProgressSink<E> {
        ProgressSink {
            to: self.to,
            typed: PhantomData,
        }
    }
}

impl<D> Clone for ProgressSink<D> {
    fn clone(&self) -> Self {
        Self {
            to: Arc::clone(&self.to),
            typed: PhantomData,
        }
    }
}

impl<D> fmt::Debug for ProgressSink<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_is_100_when_finished_and_never_above() {
        assert_eq!(Progress::of(0, Some(0), "").percentage(), Some(100));
        assert_eq!(Progress::of(7, Some(5), "").percentage(), Some(100));
        assert_eq!(Progress::of(1, Some(3), "").percentage(), Some(33));
        assert_eq!(
            Progress::of(u64::MAX - 1, Some(u64::MAX), "").percentage(),
            Some(99)
        );
        assert_eq!(Progress::of(1, None, "").percentage(), None);
    }

    #[test]
    fn the_remaining_time_follows_the_pace() {
        let half = Progress::of(50, Some(100), "").elapsed(Duration::from_secs(4));
        assert_eq!(half.remaining, Some(Duration::from_secs(4)));
        assert_eq!(
            Progress::of(0, Some(100), "")
                .elapsed(Duration::from_secs(4))
                .remaining,
            None
        );
    }
}
