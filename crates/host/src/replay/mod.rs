//! Decides recorded calls again: a reader goes through the record in batches, several threads
//! decide, and only counts and a few examples are kept, however long the record is.
//!
//! Nothing is run and nothing is written. `judge.rs` handles one call, `report.rs` the summary of
//! all.

mod judge;
mod report;

use std::sync::{Arc, Mutex, PoisonError};

use haft_contract::{
    TenantId,
    host::{CallFilter, History, LedgerError, ReplayableCall, Timestamp},
};
use tokio::sync::mpsc;

pub use self::{
    judge::{ReplayBaseline, ReplayJudge},
    report::{Change, Group, GroupKey, Report},
};

/// How many calls are read at once.
const BATCH: usize = 500;

/// The most threads that decide.
const MAX_THREADS: usize = 8;

/// Replays every call that a filter means. `progress` gets the number of calls read so far.
pub async fn replay(
    history: &dyn History,
    tenant: &TenantId,
    calls: &CallFilter,
    judge: Arc<ReplayJudge>,
    mut progress: impl FnMut(u64),
) -> Result<Report, LedgerError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(MAX_THREADS);
    let (batches, waiting) = mpsc::channel::<Vec<ReplayableCall>>(threads);
    let waiting = Arc::new(Mutex::new(waiting));
    let mut deciding = tokio::task::JoinSet::new();
    for _ in 0..threads {
        let (judge, waiting) = (Arc::clone(&judge), Arc::clone(&waiting));
        deciding.spawn_blocking(move || decide(&judge, &waiting));
    }
    let since = calls.since.unwrap_or(Timestamp(i64::MIN));
    let mut after = None;
    let mut read = 0;
    let failed = loop {
        match history.replayable(tenant, since, after, BATCH).await {
            Ok(mut batch) => {
                let Some(last) = batch.last() else { break None };
                after = Some(last.call.position);
                batch.retain(|call| calls.wants(&call.call));
                read += u64::try_from(batch.len()).unwrap_or(u64::MAX);
                progress(read);
                // Fails only when every thread is gone, and they end when this sender does.
                if batches.send(batch).await.is_err() {
                    break None;
                }
            }
            Err(error) => break Some(error),
        }
    };
    drop(batches);
    let mut report = Report::default();
    while let Some(part) = deciding.join_next().await {
        match part {
            Ok(part) => report.add(part),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(report),
    }
}

/// Decides batches until there are no more.
fn decide(judge: &ReplayJudge, waiting: &Mutex<mpsc::Receiver<Vec<ReplayableCall>>>) -> Report {
    let mut report = Report::default();
    loop {
        let batch = {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.blocking_recv()
        };
        let Some(batch) = batch else { return report };
        for call in batch {
            let (id, summary) = (call.call.id, call.call.summary.clone());
            report.note(id, summary, judge.judge(call));
        }
    }
}
