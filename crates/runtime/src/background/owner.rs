//! The owner of one kept process: reads its output while it runs, and ends it when it must end.
//! There is one task per process; nobody else holds the child.

use std::{sync::Arc, time::Duration};

use haft_contract::ops::{ChildExit, ProcessHandle};
use tokio::time::{Instant, sleep_until, timeout};

use super::kept::BackgroundChild;

/// How long a process may clean up before it is killed.
const GRACE: Duration = Duration::from_millis(800);

/// How long to keep collecting output after a process was ended.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// When a process is ended without being told to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    /// The latest time it may run.
    pub(super) until: Option<Instant>,
    /// Ends it after this long without use.
    pub(super) idle: Duration,
}

/// Owns a process until it has ended.
pub(super) async fn own(
    mut process: Box<dyn ProcessHandle>,
    kept: Arc<BackgroundChild>,
    lease: Lease,
) {
    let told = tokio::select! {
        biased;
        () = kept.stop.cancelled() => None,
        () = run_out(&kept, lease) => None,
        exit = follow(&mut *process, &kept) => Some(exit),
    };
    let exit = match told {
        Some(exit) => exit,
        None => stop(&mut *process, &kept).await,
    };
    // Dropped before its end is announced, so that nothing is left when a waiter wakes up.
    drop(process);
    kept.note_end(exit);
}

/// Reads output until the streams end, then waits for the process itself.
async fn follow(process: &mut dyn ProcessHandle, kept: &BackgroundChild) -> Option<ChildExit> {
    while let Some(chunk) = process.next_chunk().await {
        kept.take(chunk).await;
    }
    process.wait().await.ok()
}

async fn stop(process: &mut dyn ProcessHandle, kept: &BackgroundChild) -> Option<ChildExit> {
    if let Err(error) = process.stop(GRACE).await {
        tracing::warn!(%error, id = %kept.id, "a kept process did not end when told to");
    }
    let rest = async {
        while let Some(chunk) = process.next_chunk().await {
            kept.take(chunk).await;
        }
    };
    // A stream that another process still holds open must not delay the end.
    let _ = timeout(LAST_OUTPUT, rest).await;
    timeout(LAST_OUTPUT, process.wait()).await.ok()?.ok()
}

/// Returns when the process's lease is up.
async fn run_out(kept: &BackgroundChild, lease: Lease) {
    loop {
        let idle = kept.last_asked() + lease.idle;
        let end = lease.until.map_or(idle, |until| until.min(idle));
        if Instant::now() >= end {
            return;
        }
        sleep_until(end).await;
    }
}
