//! The hits of a search: those that come first in path order, whichever thread finds them when.
//!
//! Once it holds as many as the page needs, everything that comes later in path order is skipped,
//! and a search with a full page ends early.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use haft_contract::{
    ops::{GrepFile, GrepFound, GrepLine, GrepMode, GrepResults},
    streamed::Tell,
};

use crate::local::walk::shown;

/// The parameters of a search that decide what is kept.
pub(super) struct HitQuery {
    /// What counts as a result.
    pub(super) mode: GrepMode,
    /// The most results to return.
    pub(super) limit: usize,
    /// How many to skip first.
    pub(super) offset: usize,
    /// Lines of context before a match.
    pub(super) before: usize,
    /// Lines of context after a match.
    pub(super) after: usize,
    /// The longest line returned.
    pub(super) max_line_bytes: usize,
    /// Told of results as they are found.
    pub(super) found: Option<Tell<GrepFound>>,
}

/// The hits found so far, shared by all workers.
pub(super) struct Hits {
    /// The parameters of the search.
    pub(super) asked: HitQuery,
    /// Whether enough are held that paths after the last one no longer matter.
    full: AtomicBool,
    /// How many results were told.
    told: AtomicUsize,
    found: Mutex<CollectedHits>,
}

#[derive(Default)]
struct CollectedHits {
    files: BTreeMap<Vec<u8>, FileHits>,
    /// Results held: matching lines, or files.
    held: u64,
}

/// The hits in one file.
#[derive(Default)]
pub(super) struct FileHits {
    /// Matching lines.
    pub(super) count: u64,
    /// Matching lines and their context, in content mode.
    pub(super) lines: Vec<HitLine>,
}

/// A line, before its path is added.
pub(super) struct HitLine {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) matched: bool,
    pub(super) cut: u64,
}

impl Hits {
    pub(super) fn new(asked: HitQuery) -> Self {
        Self {
            asked,
            full: AtomicBool::new(false),
            told: AtomicUsize::new(0),
            found: Mutex::new(CollectedHits::default()),
        }
    }

    /// How many results the page needs: those before it, its own, and one more to see whether there
    /// are more.
    pub(super) fn wanted(&self) -> u64 {
        let HitQuery { offset, limit, .. } = self.asked;
        offset.saturating_add(limit).saturating_add(1) as u64
    }

    /// Adds the hits of a file.
    pub(super) fn add(&self, path: &[u8], hits: FileHits) {
        if self.asked.mode != GrepMode::Content {
            let count = hits.count;
            self.tell(|| {
                let path = shown(path).0;
                GrepFound::File(GrepFile { path, count })
            });
        }
        let mut found = self.lock();
        found.held += self.weight(&hits);
        found.files.insert(path.to_vec(), hits);
        while let Some((_, last)) = found.files.last_key_value() {
            let weight = self.weight(last);
            if found.held - weight < self.wanted() {
                break;
            }
            found.files.pop_last();
            found.held -= weight;
        }
        if found.held >= self.wanted() {
            self.full.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody still wants to be told of results.
    pub(super) fn tells(&self) -> bool {
        self.asked.found.is_some() && self.told.load(Ordering::Relaxed) < self.asked.limit
    }

    /// Tells a result, if somebody wants it. Must not be called with the lock held.
    pub(super) fn tell(&self, result: impl FnOnce() -> GrepFound) {
        if let Some(found) = &self.asked.found
            && self.told.fetch_add(1, Ordering::Relaxed) < self.asked.limit
        {
            found.tell(result());
        }
    }

    /// Whether hits in this file could still be part of the page.
    pub(super) fn wants_file(&self, path: &[u8]) -> bool {
        !self.full.load(Ordering::Relaxed)
            || self
                .lock()
                .files
                .last_key_value()
                .is_none_or(|(last, _)| path < last.as_slice())
    }

    /// Whether hits beneath this directory could still be part of the page.
    pub(super) fn wants_directory(&self, path: &[u8]) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        self.wants_file(&prefix)
    }

    /// The requested page.
    pub(super) fn finish(self, searched: u64) -> GrepResults {
        let CollectedHits { files, held } = self
            .found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let page = HitPage {
            mode: self.asked.mode,
            first: self.asked.offset as u64,
            end: self.asked.offset.saturating_add(self.asked.limit) as u64,
            before: self.asked.before as u64,
            after: self.asked.after as u64,
        };
        let mut results = GrepResults {
            more: held > page.end,
            searched,
            ..GrepResults::default()
        };
        let mut passed = 0;
        for (path, hits) in files {
            let (path, _) = shown(&path);
            passed = page.add(&mut results, passed, &path, hits);
            if passed >= page.end {
                break;
            }
        }
        results
    }

    fn weight(&self, hits: &FileHits) -> u64 {
        match self.asked.mode {
            GrepMode::Content => hits.count,
            GrepMode::Files | GrepMode::Count => 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, CollectedHits> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which range of the results is returned.
struct HitPage {
    mode: GrepMode,
    first: u64,
    end: u64,
    before: u64,
    after: u64,
}

impl HitPage {
    /// Adds the page's part of a file; returns how many results have been passed so far.
    fn add(&self, results: &mut GrepResults, passed: u64, path: &str, hits: FileHits) -> u64 {
        match self.mode {
            GrepMode::Files | GrepMode::Count => {
                if passed >= self.first && passed < self.end {
                    results.files.push(GrepFile {
                        path: path.to_owned(),
                        count: hits.count,
                    });
                }
                passed + 1
            }
            GrepMode::Content => {
                let mut ordinal = passed;
                let mut kept = Vec::new();
                for line in hits.lines.iter().filter(|line| line.matched) {
                    if ordinal >= self.first && ordinal < self.end {
                        kept.push(line.number);
                    }
                    ordinal += 1;
                }
                let shown = hits
                    .lines
                    .into_iter()
                    .filter(|line| self.shows(line, &kept));
                results.lines.extend(shown.map(|line| GrepLine {
                    path: path.to_owned(),
                    number: line.number,
                    text: line.text,
                    matched: line.matched,
                    cut: line.cut,
                }));
                ordinal
            }
        }
    }

    /// Whether a line is a match on the page, or context of one. `kept` are the numbers of those
    /// matches, in order.
    fn shows(&self, line: &HitLine, kept: &[u64]) -> bool {
        if line.matched {
            return kept.binary_search(&line.number).is_ok();
        }
        let from = line.number.saturating_sub(self.after);
        let at = kept.partition_point(|number| *number < from);
        kept.get(at)
            .is_some_and(|number| *number <= line.number.saturating_add(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(limit: usize, offset: usize) -> Hits {
        Hits::new(HitQuery {
            mode: GrepMode::Files,
            limit,
            offset,
            before: 0,
            after: 0,
            max_line_bytes: 100,
            found: None,
        })
    }

    fn file() -> FileHits {
        FileHits {
            count: 1,
            lines: Vec::new(),
        }
    }

    #[test]
    fn only_what_comes_first_is_held() {
        let hits = hits(2, 1);
        for path in ["z", "b", "y", "a", "c/x", "d"] {
            hits.add(path.as_bytes(), file());
        }
        assert_eq!(hits.lock().files.len(), 4);
        assert!(!hits.wants_file(b"e"));
        assert!(hits.wants_file(b"c"));
        assert!(!hits.wants_directory(b"e"));
        assert!(hits.wants_directory(b"c"));
        let results = hits.finish(6);
        let paths: Vec<_> = results
            .files
            .iter()
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(paths, ["b", "c/x"]);
        assert!(results.more);
    }
}
