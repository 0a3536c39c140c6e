//! When a statement must stop: at its deadline, or when its call is cancelled.

use std::time::Duration;

use haft_contract::{ErrorKind, ops::OpsError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The deadline and the cancel token of one statement.
#[derive(Debug, Clone)]
pub(crate) struct Halt {
    deadline: Instant,
    within: Duration,
    cancel: CancellationToken,
}

impl Halt {
    pub(crate) fn new(within: Duration, cancel: &CancellationToken) -> Self {
        Self {
            deadline: Instant::now() + within,
            within,
            cancel: cancel.clone(),
        }
    }

    /// The time that is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns once it must stop, with the reason.
    pub(crate) async fn reached(&self) -> OpsError {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {
                // The deadline of a call fires the same token.
                if self.remaining().is_zero() {
                    self.timed_out()
                } else {
                    OpsError::new(ErrorKind::Cancelled, "the statement was cancelled")
                }
            }
            () = tokio::time::sleep_until(self.deadline) => self.timed_out(),
        }
    }

    /// What was reached, where nothing has ended yet.
    pub(crate) fn met(&self, stop: &OpsError) -> String {
        match stop.kind() {
            ErrorKind::TimedOut => {
                let seconds = self.within.as_secs_f64();
                format!("the statement was still running after {seconds:.1} s")
            }
            _ => stop.message().to_owned(),
        }
    }

    pub(crate) fn timed_out(&self) -> OpsError {
        OpsError::new(
            ErrorKind::TimedOut,
            format!(
                "the statement was still running after {:.1} s and was ended",
                self.within.as_secs_f64()
            ),
        )
    }
}
