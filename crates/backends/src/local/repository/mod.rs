//! The git repository at the root of a local workspace: where it is, and putting it back.
//!
//! Reads and writes git's files itself and never runs git: its settings, hooks and filters name
//! programs, and an agent may have written them. `state.rs` is the picture that `changes` compares
//! before and after a command; `transaction.rs` puts parts back under git's own locks.

mod blob;
mod file;
mod index;
mod name_conflicts;
mod objects;
mod part;
mod refs;
mod state;
mod tracked;
mod transaction;

use std::sync::Arc;

use haft_contract::{
    BoxFuture, WorkPath,
    ops::{FileVersion, OpsError, PartChange, RepositoryOps, RepositoryPart},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
    pool::blocking,
};
use rustix::{fs::OFlags, io::Errno};

use self::file::GitFileLookup;
pub(super) use self::{
    state::{RepositoryChange, RepositoryGap, RepositoryState, StatePart},
    tracked::TrackedFiles,
};

/// What git leaves in `.git` while it is in the middle of something, and how a person ends it.
const UNFINISHED: [(&str, &str); 4] = [
    (
        "rebase-merge",
        "a rebase is in progress; end it first: `git rebase --continue` or `git rebase --abort`",
    ),
    (
        "rebase-apply",
        "a rebase or `git am` is in progress; end it first, with `--continue` or `--abort`",
    ),
    (
        "sequencer",
        "a cherry-pick or revert of several commits is in progress; end it first, with `--continue` \
         or `--abort`",
    ),
    (
        "BISECT_LOG",
        "a bisect is in progress; end it first: `git bisect reset`",
    ),
];

/// The repository at the workspace's root.
pub(crate) struct LocalRepository {
    jail: Arc<Jail>,
}

impl LocalRepository {
    pub(crate) fn new(jail: Arc<Jail>) -> Self {
        Self { jail }
    }
}

impl RepositoryOps for LocalRepository {
    fn read<'a>(
        &'a self,
        part: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<RepositoryPart>, OpsError>> {
        let (jail, part) = (Arc::clone(&self.jail), part.clone());
        Box::pin(blocking(move || part::read(&jail, &part)))
    }

    fn unfinished(&self) -> BoxFuture<'_, Result<Option<String>, OpsError>> {
        let jail = Arc::clone(&self.jail);
        Box::pin(blocking(move || {
            let names = unfinished(&jail).map_err(errno::error)?;
            let first = names.first().copied();
            let known = UNFINISHED.iter().find(|(name, _)| Some(*name) == first);
            Ok(known.map(|(_, text)| (*text).to_owned()))
        }))
    }

    fn missing_objects<'a>(
        &'a self,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, OpsError>> {
        let (jail, ids) = (Arc::clone(&self.jail), ids.to_vec());
        Box::pin(blocking(move || {
            let objects = objects::ObjectLookup::new(&jail).map_err(errno::error)?;
            Ok(objects.missing(ids))
        }))
    }

    fn indexed<'a>(
        &'a self,
        index: Option<&'a [u8]>,
        files: &'a [WorkPath],
    ) -> BoxFuture<'a, Result<Option<Vec<WorkPath>>, OpsError>> {
        let jail = Arc::clone(&self.jail);
        let (index, mut files) = (index.map(<[u8]>::to_vec), files.to_vec());
        Box::pin(blocking(move || {
            let index = match index {
                Some(index) => index,
                None => match file::read(&jail, ".git/index", part::MAX_INDEX_BYTES) {
                    Ok(GitFileLookup::File(index)) => index.bytes,
                    Ok(GitFileLookup::Absent) => return Ok(Some(Vec::new())),
                    Ok(GitFileLookup::Unread(_)) | Err(_) => return Ok(None),
                },
            };
            let Some(tracked) = TrackedFiles::of(&index) else {
                return Ok(None);
            };
            files.retain(|file| tracked.has(file.as_str().as_bytes()));
            Ok(Some(files))
        }))
    }

    fn replace<'a>(
        &'a self,
        changes: &'a [PartChange],
    ) -> BoxFuture<'a, Result<Vec<Option<FileVersion>>, OpsError>> {
        let (jail, changes) = (Arc::clone(&self.jail), changes.to_vec());
        Box::pin(blocking(move || transaction::replace(&jail, &changes)))
    }
}

/// The names of what git is in the middle of.
fn unfinished(jail: &Jail) -> Result<Vec<&'static str>, Errno> {
    let mut found = Vec::new();
    for (name, _) in UNFINISHED {
        let path = format!(".git/{name}");
        match jail.open_bytes(
            path.as_bytes(),
            OFlags::PATH | OFlags::NOFOLLOW,
            Lookup::Full,
        ) {
            Ok(_) => found.push(name),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(found)
}
