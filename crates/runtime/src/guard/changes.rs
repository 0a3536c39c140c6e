//! What the commands of a call changed in the workspace, found by a scan before the first one
//! starts and another once the call's tool has ended.
//!
//! A failed scan never fails the command; the record then says what was missed. Commands that are
//! not confined to the workspace (below T2) are not scanned, because the workspace is only part of
//! what they can change.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallEvent,
    host::Durability,
    ops::{ChangeScan, ChangedFile, Tier, WorkspaceChanges},
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Guard;

/// How long one scan may take. Back ends have smaller limits of their own; this one applies if
/// theirs fail.
const LOOK_WAIT: Duration = Duration::from_secs(30);

/// The scans of one call.
#[derive(Default)]
pub(crate) struct ChangeWatch(Mutex<FileChangeWatch>);

#[derive(Default)]
enum FileChangeWatch {
    /// No command that needs a scan was started.
    #[default]
    Idle,
    /// The first scan is done.
    Begun(Box<dyn ChangeScan>),
    /// There was no first scan, for this reason.
    Failed(String),
}

impl ChangeWatch {
    /// Whether no command was started.
    pub(crate) fn is_idle(&self) -> bool {
        let watch = self.0.try_lock();
        watch.is_ok_and(|watch| matches!(*watch, FileChangeWatch::Idle))
    }
}

impl Guard {
    /// Scans the workspace, unless this call has already done so.
    pub(super) async fn look_before_commands(&self) {
        let mut watch = self.changes.0.lock().await;
        if !matches!(*watch, FileChangeWatch::Idle) {
            return;
        }
        let Some(changes) = self.watched_changes() else {
            *watch = FileChangeWatch::Failed(match self.plan.tier() {
                Tier::T2 | Tier::T3 => "files that commands change are not tracked here".to_owned(),
                tier @ (Tier::Host | Tier::T1 | Tier::InProcess) => {
                    format!(
                        "files that commands change in tier {} are not tracked",
                        tier.as_str()
                    )
                }
            });
            return;
        };
        let keep = self.own_artifacts();
        let cancel = CancellationToken::new();
        let _stop = cancel.clone().drop_guard();
        *watch = match tokio::time::timeout(LOOK_WAIT, changes.begin(keep, cancel)).await {
            Ok(Ok(scan)) => FileChangeWatch::Begun(scan),
            Ok(Err(error)) => FileChangeWatch::Failed(error.to_string()),
            Err(_) => FileChangeWatch::Failed(took_too_long()),
        };
    }

    /// Scans again, and records the differences. Called once the tool has ended.
    pub(crate) async fn look_after_commands(&self) {
        let watch = std::mem::take(&mut *self.changes.0.lock().await);
        let (files, mut missed) = match watch {
            FileChangeWatch::Idle => return,
            FileChangeWatch::Failed(why) => (0, vec![not_known(&why)]),
            FileChangeWatch::Begun(scan) => {
                match tokio::time::timeout(LOOK_WAIT, scan.finish()).await {
                    Ok(Ok(changes)) => {
                        changes.files.into_iter().for_each(|file| self.note(file));
                        (changes.looked_at, changes.missed.into_iter().collect())
                    }
                    Ok(Err(error)) => (0, vec![not_known(&error.to_string())]),
                    Err(_) => (0, vec![not_known(&took_too_long())]),
                }
            }
        };
        let kept = self
            .engine
            .processes
            .of(&self.principal, self.plan.workspace_id());
        if kept.iter().any(|kept| !kept.has_ended()) {
            missed.push(
                "a process of this session still runs; what it changes from now on is not covered"
                    .to_owned(),
            );
        }
        self.recording.note(CallEvent::ChangesScanned {
            files,
            missed: (!missed.is_empty()).then(|| missed.join("; ")),
        });
        // If the record is down, that is reported when the call settles.
        let _ = self.recording.commit(Durability::Queued).await;
    }

    fn note(&self, file: ChangedFile) {
        let (before, kept, mode) = match file.before {
            Some(before) => (Some(before.version), before.artifact, Some(before.mode)),
            None => (None, None, None),
        };
        self.recording.note(CallEvent::PreimageKept {
            path: file.path.clone(),
            artifact: kept,
            before,
            mode,
        });
        let (after, artifact) = match file.after {
            Some(after) => (Some(after.version), after.artifact),
            None => (None, None),
        };
        self.recording.note(CallEvent::FileChanged {
            path: file.path,
            after,
            artifact,
        });
    }

    fn watched_changes(&self) -> Option<&Arc<dyn WorkspaceChanges>> {
        match self.plan.tier() {
            Tier::T2 | Tier::T3 => self.operations().changes.as_ref(),
            Tier::Host | Tier::T1 | Tier::InProcess => None,
        }
    }
}

fn took_too_long() -> String {
    format!(
        "scanning the workspace took longer than {} s",
        LOOK_WAIT.as_secs()
    )
}

fn not_known(why: &str) -> String {
    format!("what the command changed is not known: {why}")
}
