//! Writes the state of this process's servers and rules to a file, for `haft mcp status` and
//! `haft status` in another process.

use std::{io, path::Path, sync::Arc, time::Duration};

use haft_mcp::upstream::supervise::Fleet;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{MountPlan, status::ServerView};
use crate::{
    host_policy::HostPolicy,
    state::running::{KEPT_RULES, ProcessFile},
};

/// How often to check whether the servers' state changed.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// How often to try to take this process's file.
const BEGIN_TRIES: u32 = 10;

/// Writes the state of this process's servers for `haft mcp status`, until cancelled.
pub(crate) async fn report(
    plan: Arc<MountPlan>,
    fleet: Arc<Fleet>,
    policy: Arc<HostPolicy>,
    cancel: CancellationToken,
) {
    let running = match begin(&plan.defaults.data_dir, &cancel).await {
        Ok(Some(running)) => Arc::new(running),
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, "`haft mcp status` will not know of this process");
            return;
        }
    };
    let mut written = Value::Null;
    loop {
        let servers: Vec<ServerView> = fleet.status().iter().map(ServerView::of).collect();
        let mut now = json!({"pid": std::process::id(), "servers": servers});
        if let (Some(why), Some(status)) = (policy.kept_because(), now.as_object_mut()) {
            status.insert(KEPT_RULES.to_owned(), why.into());
        }
        if now != written {
            let (running, status) = (Arc::clone(&running), now.clone());
            let wrote = tokio::task::spawn_blocking(move || running.write(&status)).await;
            if let Ok(Err(error)) = wrote {
                tracing::warn!(%error, "the state of mounted servers could not be written");
            }
            plan.keep_failures(&fleet);
            written = now;
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(REPORT_EVERY) => {}
        }
    }
}

/// Takes this process's file. A process that checks whether this one is alive holds the lock for a
/// moment, so this tries a few times; `None` if cancelled.
async fn begin(data_dir: &Path, cancel: &CancellationToken) -> io::Result<Option<ProcessFile>> {
    let mut tries = 0;
    loop {
        let data_dir = data_dir.to_owned();
        let begun = tokio::task::spawn_blocking(move || ProcessFile::begin(&data_dir));
        let error = match begun.await.map_err(io::Error::other)? {
            Ok(running) => return Ok(Some(running)),
            Err(error) => error,
        };
        tries += 1;
        if error.kind() != io::ErrorKind::WouldBlock || tries > BEGIN_TRIES {
            return Err(error);
        }
        tokio::select! {
            () = cancel.cancelled() => return Ok(None),
            () = tokio::time::sleep(REPORT_EVERY) => {}
        }
    }
}
