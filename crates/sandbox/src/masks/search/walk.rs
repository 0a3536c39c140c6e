//! Goes through the directories of a workspace in which patterns with wildcards can match, shallow
//! ones first, until a bound is reached.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use globset::{GlobSet, GlobSetBuilder};
use rustix::{
    fs::{AtFlags, Dir, FileType, OFlags, statat},
    io::Errno,
};

use super::{PatternNumber, PlaceSearch, Visit, cannot_look, look, uncertain};
use crate::{
    jail::Lookup,
    masks::pattern::{MaskKind, MaskPattern},
};

/// How many entries to look at between two checks of the clock.
const CLOCK_EVERY: usize = 256;

/// The most links to directories that are looked through for patterns that they make uncertain.
const MAX_LINKS: usize = 64;

/// The globs of a search, compiled together.
struct WalkedGlobs {
    set: GlobSet,
    numbers: Vec<PatternNumber>,
}

/// A bound of the search was reached.
struct BoundReached;

impl PlaceSearch<'_> {
    /// Looks through every directory in which a glob can match: first for what is hidden, then for
    /// what is kept unchanged, last behind links.
    pub(super) fn walk(&mut self) {
        let mut walked: BTreeSet<PathBuf> = BTreeSet::new();
        let is_walked = |pattern: &MaskPattern<'_>| {
            let is_kept = pattern.kind == MaskKind::ReadOnly && pattern.is_everything();
            !pattern.is_literal() && !is_kept
        };
        let all = self.numbers(is_walked);
        let globs = match self.compile(&all) {
            Ok(globs) => globs,
            Err(why) => {
                return all
                    .iter()
                    .for_each(|number| self.doubt(*number, why.clone()));
            }
        };
        for kind in [MaskKind::Hidden, MaskKind::ReadOnly] {
            let group = self.numbers(|pattern| is_walked(pattern) && pattern.kind == kind);
            let mut queue: VecDeque<Visit> = VecDeque::new();
            for start in self.starts(&group) {
                if let Some(link) = self.link_on_the_way(&start) {
                    let group = group.iter().copied();
                    let begins = |number: &PatternNumber| self.begins_at(*number, &start);
                    let concerned: Vec<PatternNumber> = group.filter(begins).collect();
                    for number in concerned {
                        self.doubt(number, uncertain(&link));
                    }
                    self.look_behind(&start, &start);
                } else if !walked.iter().any(|above| start.starts_with(above)) {
                    queue.push_back(Visit {
                        real: start.clone(),
                        named: start.clone(),
                    });
                }
                walked.insert(start);
            }
            self.walk_queue(queue, &globs, &group, &walked);
        }
        // Their patterns are not held anyway, so it does not matter where this ends.
        let linked: VecDeque<Visit> = self.linked.drain(..).collect();
        self.walk_queue(linked, &globs, &[], &BTreeSet::new());
    }

    /// Looks through directories, shallow ones first. If a bound is reached, the patterns of the
    /// group that might match in what is left are not held.
    fn walk_queue(
        &mut self,
        mut queue: VecDeque<Visit>,
        globs: &WalkedGlobs,
        group: &[PatternNumber],
        walked: &BTreeSet<PathBuf>,
    ) {
        let starts: BTreeSet<PathBuf> = queue.iter().map(|visit| visit.real.clone()).collect();
        while let Some(visit) = queue.pop_front() {
            if walked.contains(&visit.real) && !starts.contains(&visit.real) {
                continue;
            }
            if let Ok(below) = self.look_into(&visit, globs, group) {
                queue.extend(below);
                continue;
            }
            queue.push_front(visit);
            for number in group {
                let left = |pattern: &MaskPattern<'_>| {
                    let mut left = queue.iter();
                    left.any(|visit| pattern.may_match_beneath(&visit.named))
                };
                if self.patterns.get(*number).is_some_and(left) {
                    self.doubt(*number, self.too_large());
                }
            }
            return;
        }
    }

    /// Looks at the entries of one directory; returns the directories to look into next.
    fn look_into(
        &mut self,
        visit: &Visit,
        globs: &WalkedGlobs,
        group: &[PatternNumber],
    ) -> Result<Vec<Visit>, BoundReached> {
        let path = if visit.real == Path::new("") {
            Path::new(".")
        } else {
            &visit.real
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let opened = self
            .jail
            .open_bytes(path.as_os_str().as_bytes(), flags, Lookup::Full)
            .and_then(|held| Dir::read_from(&held).map(|entries| (held, entries)));
        let (held, entries) = match opened {
            Ok(opened) => opened,
            // Gone meanwhile, never there, or a mount that the sandbox does not show.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(Vec::new()),
            Err(errno) => {
                if errno != Errno::ACCESS || self.could_be_opened_up(path) {
                    self.close_off(visit, group);
                }
                return Ok(Vec::new());
            }
        };
        let mut below = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                self.close_off(visit, group);
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.count()?;
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&held, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let name = OsStr::from_bytes(name.to_bytes());
            let entry = Visit {
                real: visit.real.join(name),
                named: visit.named.join(name),
            };
            if self.is_masked_match(&entry, kind, globs) {
                continue;
            }
            match kind {
                FileType::Directory => below.push(entry),
                FileType::Symlink => self.note_link(&entry, group),
                _ => {}
            }
        }
        Ok(below)
    }

    /// Masks an entry that matches; returns whether it is hidden, so that nothing in it matters.
    fn is_masked_match(&mut self, entry: &Visit, kind: FileType, globs: &WalkedGlobs) -> bool {
        let mut is_hidden = false;
        for number in globs.set.matches(&entry.named) {
            let Some(number) = globs.numbers.get(number).copied() else {
                continue;
            };
            let pattern = self.patterns.get(number);
            if let Some(pattern) = pattern.filter(|pattern| pattern.fits(kind)) {
                is_hidden |= pattern.kind == MaskKind::Hidden;
                self.mask_at(number, &entry.real);
            }
        }
        is_hidden
    }

    /// Through a link to a directory, a pattern that names directories may match what it does not
    /// match by its real name.
    fn note_link(&mut self, link: &Visit, group: &[PatternNumber]) {
        let concerned: Vec<PatternNumber> = group
            .iter()
            .copied()
            .filter(|number| {
                self.patterns.get(*number).is_some_and(|pattern| {
                    pattern.names_directories() && pattern.may_match_beneath(&link.named)
                })
            })
            .collect();
        if concerned.is_empty() {
            return;
        }
        let Ok(target) = std::fs::canonicalize(self.root.join(&link.real)) else {
            return;
        };
        let is_visible = target.starts_with(&self.root) || self.is_shown(&target);
        if target.is_dir() && is_visible {
            for number in concerned {
                self.doubt(number, uncertain(&link.real));
            }
            self.look_behind(&link.real, &link.named);
        }
    }

    /// Notes that what is behind a link is to be looked through at the end.
    fn look_behind(&mut self, link: &Path, named: &Path) {
        let target = std::fs::canonicalize(self.root.join(link));
        let below = target.ok().and_then(|target| {
            let below = target.strip_prefix(&self.root).ok()?;
            Some(below.to_owned())
        });
        if let Some(real) = below.filter(|_| self.linked.len() < MAX_LINKS) {
            self.linked.push(Visit {
                real,
                named: named.to_owned(),
            });
        }
    }

    /// A directory that cannot be read now, but by a command that changes its mode: the patterns
    /// that might match in it are not held, and what of it might be meant is hidden as a whole.
    pub(super) fn close_off(&mut self, visit: &Visit, group: &[PatternNumber]) {
        for number in group.iter().copied() {
            let pattern = self.patterns.get(number);
            let Some(pattern) = pattern
                .filter(|pattern| pattern.is_literal() || pattern.may_match_beneath(&visit.named))
            else {
                continue;
            };
            let kind = pattern.kind;
            self.doubt(number, cannot_look(&visit.real, Errno::ACCESS));
            if kind == MaskKind::Hidden
                && visit.real != Path::new("")
                && let Ok(Some((identity, FileType::Directory))) = look(self.jail, &visit.real)
            {
                self.mask(number, &visit.real, identity, FileType::Directory);
            }
        }
    }

    fn count(&mut self) -> Result<(), BoundReached> {
        self.entries += 1;
        let late = self.entries.is_multiple_of(CLOCK_EVERY) && Instant::now() > self.deadline;
        if self.entries > self.limits.entries || late {
            return Err(BoundReached);
        }
        Ok(())
    }

    /// The directories in which patterns begin, none of them in another.
    fn starts(&self, group: &[PatternNumber]) -> Vec<PathBuf> {
        let patterns = group.iter().filter_map(|number| self.patterns.get(*number));
        let stems: BTreeSet<&Path> = patterns.map(MaskPattern::stem).collect();
        let mut starts: Vec<PathBuf> = Vec::new();
        for stem in stems {
            // Sorted, so that a directory comes before what is in it.
            if !starts.iter().any(|start| stem.starts_with(start)) {
                starts.push(stem.to_owned());
            }
        }
        starts
    }

    fn begins_at(&self, number: PatternNumber, start: &Path) -> bool {
        let pattern = self.patterns.get(number);
        pattern.is_some_and(|pattern| pattern.stem().starts_with(start))
    }

    fn compile(&self, numbers: &[PatternNumber]) -> Result<WalkedGlobs, String> {
        let mut set = GlobSetBuilder::new();
        for pattern in numbers
            .iter()
            .filter_map(|number| self.patterns.get(*number))
        {
            set.add(pattern.glob().clone());
        }
        let invalid = |error: globset::Error| format!("a mask is not a glob: {}", error.kind());
        Ok(WalkedGlobs {
            set: set.build().map_err(invalid)?,
            numbers: numbers.to_vec(),
        })
    }

    fn too_large(&self) -> String {
        format!(
            "the workspace is too large to find everything that deny rules hide: more than {} \
             entries, or {} s; `entries` and `seconds` under [sandbox.masks] allow more",
            self.limits.entries,
            self.limits.time.as_secs()
        )
    }
}
