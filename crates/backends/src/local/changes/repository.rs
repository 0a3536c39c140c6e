//! What a command did to the git repository at the workspace's root: which parts of its state
//! changed, kept like the content of files, and what of it cannot be taken back.

use std::sync::Arc;

use haft_contract::{
    host::{ArtifactId, ArtifactStore},
    ops::{ChangedFile, KeptVersion, OpsError, part_version},
};
use haft_sandbox::{jail::Jail, pool::blocking};

use super::missed::{CoverageGaps, GapCause, Reason};
use crate::local::repository::{
    RepositoryChange, RepositoryGap, RepositoryState, StatePart, TrackedFiles,
};

/// The most parts of the state that one command may change to have them on record.
const MAX_CHANGED_PARTS: usize = 1_000;

/// The repository before a command: its state, nothing, or why it is not covered.
pub(super) type RepositoryBefore = Result<Option<RepositoryState>, RepositoryGap>;

/// Reads the repository's state before a command, and which files its index names. Nothing is stored
/// yet: only what changes is.
pub(super) async fn look(jail: &Arc<Jail>) -> Result<(RepositoryBefore, TrackedFiles), OpsError> {
    let jail = Arc::clone(jail);
    blocking(move || {
        let state = RepositoryState::read(&jail);
        let tracked = match &state {
            Ok(Some(state)) => state.tracked(),
            Ok(None) | Err(_) => TrackedFiles::default(),
        };
        Ok((state, tracked))
    })
    .await
}

/// Reads the state again, and keeps what changed.
pub(super) async fn compare(
    jail: &Arc<Jail>,
    before: RepositoryBefore,
    store: &Arc<dyn ArtifactStore>,
    missed: &mut CoverageGaps,
) -> Result<Vec<ChangedFile>, OpsError> {
    let before = match before {
        Ok(Some(before)) => before,
        // A command cannot make a repository here: `.git` is a protected name.
        Ok(None) => return Ok(Vec::new()),
        Err(gap) => {
            missed.add_plain(Reason::Repository(gap));
            return Ok(Vec::new());
        }
    };
    let held = Arc::clone(jail);
    let compared = blocking(move || {
        let mut gaps = Vec::new();
        let changes = match RepositoryState::read(&held) {
            Ok(Some(after)) => {
                let gap = |gap, name: &str| gaps.push((gap, name.to_owned()));
                before.compare(after, &held, gap)
            }
            Ok(None) => {
                gaps.push((RepositoryGap::Unreadable, String::new()));
                Vec::new()
            }
            Err(gap) => {
                gaps.push((gap, String::new()));
                Vec::new()
            }
        };
        Ok((changes, gaps))
    });
    let (changes, gaps) = compared.await?;
    for (gap, name) in gaps {
        match name.as_str() {
            "" => missed.add_plain(Reason::Repository(gap)),
            name => missed.add(Reason::Repository(gap), name.as_bytes()),
        }
    }
    if changes.len() > MAX_CHANGED_PARTS {
        missed.add_plain(Reason::Repository(RepositoryGap::TooManyRefs));
        return Ok(Vec::new());
    }
    Ok(keep(changes, store, missed).await)
}

async fn keep(
    changes: Vec<RepositoryChange>,
    store: &Arc<dyn ArtifactStore>,
    missed: &mut CoverageGaps,
) -> Vec<ChangedFile> {
    let contents: Vec<Vec<u8>> = changes
        .iter()
        .flat_map(|change| [&change.before, &change.after])
        .flatten()
        .map(|part| part.bytes.clone())
        .collect();
    let kept = if contents.is_empty() {
        Ok(Vec::new())
    } else {
        store.keep_all(contents).await
    };
    let is_broken = kept.is_err();
    let mut ids = kept.unwrap_or_default().into_iter();
    let mut files = Vec::with_capacity(changes.len());
    for change in changes {
        if is_broken && change.before.is_some() {
            let reason = Reason::NoPreImage(GapCause::Store);
            missed.add(reason, change.path.as_str().as_bytes());
        }
        files.push(ChangedFile {
            before: change.before.map(|part| version(&part, ids.next())),
            after: change.after.map(|part| version(&part, ids.next())),
            path: change.path,
        });
    }
    files
}

fn version(part: &StatePart, artifact: Option<ArtifactId>) -> KeptVersion {
    KeptVersion {
        version: part_version(&part.holds),
        artifact,
        mode: part.mode,
    }
}
