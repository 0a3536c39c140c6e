//! Where text work runs that takes time with the size of its input, and how it is stopped.
//!
//! An async thread that computes hears neither a deadline nor a cancel. So work over more than
//! [`INLINE_BYTES`] runs on the blocking pool, looks at its [`Stop`] regularly, and the call ends
//! at once when it is stopped; the thread follows at its next look. Must not be used for work that
//! changes anything: it may go on for a moment after the call has ended.

use haft_contract::{ErrorKind, ToolError};
use tokio_util::sync::CancellationToken;

/// Work over fewer bytes is done sooner than a thread is found for it.
pub(crate) const INLINE_BYTES: usize = 32 * 1024;

/// Steps of a loop between two looks at the token, which takes a lock.
const STEPS_PER_LOOK: usize = 1024;

/// Says whether work should end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(CancellationToken);

/// Work ended because its call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkStopped;

impl Stop {
    /// Work that is stopped with this token.
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

    /// As [`Self::check`], but looks only at every so many steps of a loop.
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
            "stopped before the text was worked through; nothing was changed",
        )
    }
}

/// Does work whose cost grows with `size` bytes: at once where that is little, else on the
/// blocking pool.
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

/// Does work on the blocking pool, and waits for it no longer than the call lasts.
pub(crate) async fn off_thread<T, W>(cancel: &CancellationToken, work: W) -> Result<T, ToolError>
where
    T: Send + 'static,
    W: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    // Stopped with the call's token, and also when nobody waits any more.
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

    /// The call ends at once, the thread at its next look.
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
