//! Lists a directory, to a depth. Memory is bounded by the limit, not by the tree.

use std::{
    collections::{BTreeMap, VecDeque},
    os::fd::AsFd,
    sync::Arc,
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{Entry, FileKind, ListQuery, Listing, OpsError},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::fs::{AtFlags, OFlags, Stat, statat};
use tokio_util::sync::CancellationToken;

use super::stat::{file_stat, modified_ms};
use crate::local::walk::{DirectoryNames, Globs, IgnoreFiles, IgnoreNode, Ignores, shown};

/// The most directories one listing opens.
const MAX_DIRECTORIES: usize = 1_000_000;

/// A listing, owned for the blocking pool.
pub(super) struct ListJob {
    depth: usize,
    limit: usize,
    globs: Globs,
    stop: CancellationToken,
}

impl ListJob {
    pub(super) fn new(query: &ListQuery<'_>, stop: CancellationToken) -> Result<Self, OpsError> {
        Ok(Self {
            depth: query.depth.max(1),
            limit: query.limit,
            globs: Globs::new(query.withheld, Ignores::from_flag(query.respect_ignores))?,
            stop,
        })
    }

    /// Lists everything beneath a directory.
    pub(super) fn run(&self, jail: &Jail, start: &WorkPath) -> Result<Listing, OpsError> {
        let first = jail.open_directory(start)?;
        let mut names = DirectoryNames::new();
        let mut kept = FirstEntries::new(self.limit);
        let mut opened = 0;
        let mut waiting = VecDeque::from([PendingDirectory {
            path: if start.is_root() {
                Vec::new()
            } else {
                start.as_str().as_bytes().to_vec()
            },
            depth: 1,
            ignores: match self.globs.ignores {
                Ignores::Respect => IgnoreNode::above(jail, start),
                Ignores::WalkAll => None,
            },
        }]);
        let mut first = Some(first);
        while let Some(here) = waiting.pop_front() {
            self.check(opened, start)?;
            opened += 1;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let directory = match first.take() {
                Some(directory) => directory,
                // One that vanished or became a link since it was found is listed without content.
                None => match jail.open_bytes(&here.path, flags, Lookup::Full) {
                    Ok(directory) => directory,
                    Err(_) => continue,
                },
            };
            names
                .read(directory.as_fd())
                .map_err(|errno| errno::on_path(errno, start))?;
            let ignores = match self.globs.ignores {
                Ignores::Respect => IgnoreNode::enter(
                    jail,
                    directory.as_fd(),
                    &here.path,
                    &names,
                    IgnoreFiles::All,
                    here.ignores,
                ),
                Ignores::WalkAll => None,
            };
            for (name, kind) in names.iter() {
                let mut path = here.path.clone();
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(name.to_bytes());
                if self.globs.leaves_out(&path, name, kind, ignores.as_deref()) {
                    continue;
                }
                if kind == FileKind::Directory && here.depth < self.depth {
                    waiting.push_back(PendingDirectory {
                        path: path.clone(),
                        depth: here.depth + 1,
                        ignores: ignores.clone(),
                    });
                }
                kept.add(path, || {
                    statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
                });
            }
        }
        Ok(kept.finish())
    }

    fn check(&self, opened: usize, start: &WorkPath) -> Result<(), OpsError> {
        if self.stop.is_cancelled() {
            return Err(OpsError::new(ErrorKind::Cancelled, "the listing was stopped").on(start));
        }
        if opened >= MAX_DIRECTORIES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("it contains more than {MAX_DIRECTORIES} directories; list a part of it"),
            )
            .on(start));
        }
        Ok(())
    }
}

/// The entry for a path that was found, with its stat.
pub(crate) fn entry(path: &[u8], stat: &Stat) -> Entry {
    let (path, escaped) = shown(path);
    let file = file_stat(stat);
    Entry {
        path,
        escaped,
        kind: file.kind,
        size: file.size,
        modified_ms: modified_ms(stat),
    }
}

struct PendingDirectory {
    path: Vec<u8>,
    depth: usize,
    ignores: Option<Arc<IgnoreNode>>,
}

/// The entries that sort first, and a count of the rest.
struct FirstEntries {
    entries: BTreeMap<Vec<u8>, Entry>,
    limit: usize,
    omitted: u64,
}

impl FirstEntries {
    fn new(limit: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            limit,
            omitted: 0,
        }
    }

    /// Adds an entry; stats it only if it is among the first.
    fn add(&mut self, path: Vec<u8>, stat: impl FnOnce() -> Option<Stat>) {
        if self.entries.len() >= self.limit {
            let among_the_first = self
                .entries
                .last_key_value()
                .is_some_and(|(last, _)| path < *last);
            if !among_the_first {
                self.omitted += 1;
                return;
            }
        }
        // Gone since its name was read.
        let Some(stat) = stat() else { return };
        let entry = entry(&path, &stat);
        self.entries.insert(path, entry);
        if self.entries.len() > self.limit {
            self.entries.pop_last();
            self.omitted += 1;
        }
    }

    fn finish(self) -> Listing {
        Listing {
            entries: self.entries.into_values().collect(),
            omitted: self.omitted,
        }
    }
}
