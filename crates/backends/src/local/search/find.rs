//! Finds files by name. Only what will be returned is statted, unless the order needs more.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    WorkPath,
    ops::{Entry, FileKind, FindQuery, FindResults, FindSort, FoundEntry, OpsError},
    streamed::Tell,
};
use haft_sandbox::jail::{Jail, Lookup};
use rustix::fs::{AtFlags, OFlags, Stat, fstat, statat};
use tokio_util::sync::CancellationToken;

use crate::local::{
    files::{entry, modified_ms},
    walk::{Globs, Ignores, PathGlob, Visit, VisitedEntry, shown, walk},
};

/// A find, owned for the blocking pool.
pub(super) struct FindJob {
    pattern: PathGlob,
    path: WorkPath,
    kind: Option<FileKind>,
    sort: FindSort,
    limit: usize,
    offset: usize,
    found: Option<Tell<FoundEntry>>,
    told: AtomicUsize,
    globs: Globs,
    stop: CancellationToken,
}

impl FindJob {
    pub(super) fn new(query: &FindQuery<'_>, stop: CancellationToken) -> Result<Self, OpsError> {
        Ok(Self {
            pattern: PathGlob::new(query.pattern)?,
            path: query.path.clone(),
            kind: query.kind,
            sort: query.sort,
            limit: query.limit,
            offset: query.offset,
            // In another order than that of the walk, the first ones found are rarely on the page.
            found: query
                .found
                .clone()
                .filter(|_| query.offset == 0 && query.sort == FindSort::Path),
            told: AtomicUsize::new(0),
            globs: Globs::new(query.withheld, Ignores::from_flag(query.respect_ignores))?,
            stop,
        })
    }

    pub(super) fn run(&self, jail: &Jail) -> Result<FindResults, OpsError> {
        let visitors = walk(jail, &self.path, &self.globs, &self.stop, || Finder {
            job: self,
            below: below(&self.path),
            first: BinaryHeap::new(),
            total: 0,
        })?;
        let total = visitors.iter().map(|finder| finder.total).sum();
        let mut found: Vec<FindMatch> = visitors
            .into_iter()
            .flat_map(|finder| finder.first)
            .collect();
        found.sort_unstable();
        let entries = found
            .iter()
            .skip(self.offset)
            .take(self.limit)
            .filter_map(|found| look(jail, &found.path))
            .collect();
        Ok(FindResults { entries, total })
    }
}

impl FindJob {
    fn tell(&self, entry: &VisitedEntry<'_>) {
        if let Some(found) = &self.found
            && self.told.fetch_add(1, Ordering::Relaxed) < self.limit
        {
            found.tell(FoundEntry {
                path: shown(entry.path).0,
                kind: entry.kind,
            });
        }
    }
}

/// The length of the part of a path that leads to the start of the search, in bytes.
pub(super) fn below(start: &WorkPath) -> usize {
    if start.is_root() {
        0
    } else {
        start.as_str().len() + 1
    }
}

/// The entry at a path now; `None` if it has gone since it was found.
fn look(jail: &Jail, path: &[u8]) -> Option<Entry> {
    let file = jail
        .open_bytes(path, OFlags::PATH | OFlags::NOFOLLOW, Lookup::Full)
        .ok()?;
    Some(entry(path, &fstat(&file).ok()?))
}

/// A worker, and what it found.
struct Finder<'a> {
    job: &'a FindJob,
    below: usize,
    /// The entries that sort first, the last of them on top.
    first: BinaryHeap<FindMatch>,
    total: u64,
}

/// A match, ordered as requested: by key, then by path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FindMatch {
    key: Reverse<i64>,
    path: Vec<u8>,
}

impl Visit for Finder<'_> {
    fn wants_directory(&mut self, _: &[u8]) -> bool {
        true
    }

    fn entry(&mut self, entry: &VisitedEntry<'_>) {
        if self.job.kind.is_some_and(|kind| kind != entry.kind) {
            return;
        }
        let relative = entry.path.get(self.below..).unwrap_or_default();
        if !self.job.pattern.matches(relative) {
            return;
        }
        self.total += 1;
        self.job.tell(entry);
        let stat = || statat(entry.directory, entry.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let key = Reverse(match self.job.sort {
            FindSort::Path => 0,
            FindSort::Modified => stat().as_ref().map_or(i64::MIN, modified_ms),
            FindSort::Size => stat().as_ref().map_or(0, |stat| size(stat, entry.kind)),
        });
        let room = self.job.offset.saturating_add(self.job.limit);
        if self.first.len() >= room {
            let comes_first = self
                .first
                .peek()
                .is_some_and(|last| (&key, entry.path) < (&last.key, last.path.as_slice()));
            if !comes_first {
                return;
            }
            self.first.pop();
        }
        self.first.push(FindMatch {
            key,
            path: entry.path.to_vec(),
        });
    }
}

fn size(stat: &Stat, kind: FileKind) -> i64 {
    match kind {
        FileKind::File => stat.st_size,
        FileKind::Directory | FileKind::Symlink | FileKind::Other => 0,
    }
}
