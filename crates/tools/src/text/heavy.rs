//! Where expensive text work runs, and how it is stopped.
//!
//! An async thread that is busy computing notices neither a deadline nor a cancel. So work over
//! more than [`INLINE_BYTES`] runs on the blocking pool and checks its [`Stop`] regularly. When the
//! call is stopped it ends at once; the thread follows at its next check. Must not be used for work
//! that changes anything: it may continue for a moment after the call has ended.

use haft_contract::{ErrorKind, ToolError};
use tokio_util::sync::CancellationToken;

/// Work over fewer bytes finishes sooner than handing it to a thread would take.
pub(crate) const INLINE_BYTES: usize = 32 * 1024;

/// Loop steps between two checks of the token, which takes a lock.
const STEPS_PER_LOOK: usize = 1024;

/// Tells work when it should end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(CancellationToken);

/// Work ended because its call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkStopped;

impl Stop {
    /// A stop that fires with this token.
    pub(crate) fn with(cancel: &CancellationToken) -> Self {
        Self(cancel.clone())
    }

    /// Fails once the call has ended.
    pub(crate) fn check(&self) -> Result<(), WorkStopped> {
        if self.0.is_cancelled() {
            Err(WorkStopped)
        } else {
            Ok(())
        }
    }

    /// Like [`Self::check`], but checks only once every [`STEPS_PER_LOOK`] steps of a loop.
    pub(crate) fn check_at(&self, step: usize) -> Result<(), WorkStopped> {
        if step.is_multiple_of(STEPS_PER_LOOK) {
            self.check()
        } else {
            Ok(())
        }
    }
}

impl From<WorkStopped> for ToolError {
    fn from(WorkStopped: WorkStopped) -> Self {
        Self::new(
            ErrorKind::Cancelled,
            "stopped before the text was processed; nothing was changed",
        )
    }
}

/// Runs work whose cost grows with `size` bytes: inline if that is little, else on the blocking
/// pool.
pub(crate) async fn by_size<T, W>(
    size: usize,
    cancel: &CancellationToken,
    work: W,
) -> Result<T, ToolError>
where
    T: Send + 'static,
    W: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    if size <= INLINE_BYTES {
        return work(&Stop::with(cancel));
    }
    off_thread(cancel, work).await
}

/// Runs work on the blocking pool and waits for it no longer than the call lasts.
pub(crate) async fn off_thread<T, W>(cancel: &CancellationToken, work: W) -> Result<T, ToolError>
where
    T: Send + 'static,
    W: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    // Stopped by the call's token, and also when nobody waits any more.
    let token = cancel.child_token();
    let _stop_when_dropped = token.clone().drop_guard();
    let stop = Stop::with(&token);
    let task = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        biased;
        done = task => match done {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                // The pipeline turns a panic into an outcome.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(WorkStopped.into()),
            },
        },
        () = cancel.cancelled() => Err(WorkStopped.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The call ends at once, the thread at its next check.
    #[tokio::test]
    async fn rx_cpu_work_off_the_thread_ends_with_its_call() {
        let cancel = CancellationToken::new();
        let (ended, has_ended) = mpsc::sync_channel(1);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let work = off_thread(&cancel, move |stop: &Stop| {
            let _ = begun.send(());
            while stop.check().is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(stop.check()?)
        });
        let stop = async {
            has_begun.await.unwrap();
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(work, stop);
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
        has_ended
            .recv_timeout(std::time::Duration::from_secs(10))
            .unwrap();
    }
}
