//! Scans the whole workspace: the state of every file, and what is known about its content from the
//! previous scan. Opens directories only; `keep.rs` reads files.
//!
//! What an agent writes into ignore files must not decide what is on record. A `.gitignore` counts
//! if git's index has it with this content; others leave out only directories that builds make. What
//! git tracks is always scanned, and so is what the previous scan covered. After a command, the rules
//! from before it apply in every directory that existed: a command can neither hide what it changed
//! nor make ignored files look new.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use haft_contract::{
    WorkPath,
    ops::{FileKind, OpsError},
};
use haft_sandbox::jail::{Jail, Lookup};
use rustix::{
    fs::{AtFlags, OFlags, fstat, statat},
    io::Errno,
};
use tokio_util::sync::CancellationToken;

use super::{
    missed::{CoverageGaps, Reason},
    picture::{Content, Directory, Entry, Identity, WorkspacePicture},
};
use crate::local::{
    repository::TrackedFiles,
    walk::{
        EnteredDirectory, Globs, IgnoreFiles, IgnoreNode, Visit, VisitedEntry,
        is_in_build_directory, walk,
    },
};

/// How many files to scan between two checks of the clock.
const CLOCK_EVERY: usize = 256;

/// When a scan happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before a command; the reference is the remembered picture.
    Before,
    /// After it; the reference is the picture from before.
    After,
}

/// The settings of a scan.
pub(super) struct ScanOptions {
    pub(super) jail: Arc<Jail>,
    pub(super) globs: Globs,
    pub(super) own: Option<Vec<u8>>,
    /// What git's index named before the command.
    pub(super) tracked: Arc<TrackedFiles>,
    pub(super) phase: Phase,
    pub(super) max_files: usize,
    pub(super) deadline: Instant,
}

/// The ignore rules of directories that have their own.
#[derive(Default)]
pub(super) struct IgnoreCache {
    nodes: HashMap<Vec<u8>, Arc<IgnoreNode>>,
}

/// The outcome of a scan.
pub(super) struct ScanResult {
    pub(super) picture: WorkspacePicture,
    pub(super) remembered: IgnoreCache,
    pub(super) looked_at: u64,
    /// Whether every file was scanned.
    pub(super) is_whole: bool,
    /// Whether anything but `.git` was left out.
    has_left_out: bool,
    pub(super) missed: CoverageGaps,
}

impl ScanOptions {
    /// Scans everything.
    pub(super) fn run(
        &self,
        reference: &WorkspacePicture,
        remembered: &IgnoreCache,
        stop: &CancellationToken,
    ) -> Result<ScanResult, OpsError> {
        let shared = ScanState {
            look: self,
            reference,
            remembered,
            known_rules: remembered.nodes.values().map(address).collect(),
            count: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            late: AtomicBool::new(false),
            left_out: AtomicBool::new(false),
        };
        let visitors = walk(&self.jail, &WorkPath::root(), &self.globs, stop, || {
            ScanWorker {
                shared: &shared,
                pieces: Vec::new(),
                known: None,
                cursor: 0,
                seen: 0,
                nodes: Vec::new(),
                missed: CoverageGaps::default(),
            }
        })?;
        let mut pieces = Vec::new();
        let mut nodes = HashMap::new();
        let mut missed = CoverageGaps::default();
        for visitor in visitors {
            pieces.extend(visitor.pieces);
            nodes.extend(visitor.nodes);
            missed.append(visitor.missed);
        }
        let (full, late) = (shared.full.into_inner(), shared.late.into_inner());
        if full {
            missed.add_plain(Reason::TooManyFiles(self.max_files));
        }
        if late {
            missed.add_plain(Reason::TooLate);
        }
        let picture = WorkspacePicture::from_pieces(pieces);
        Ok(ScanResult {
            looked_at: picture.files() as u64,
            picture,
            remembered: IgnoreCache { nodes },
            is_whole: !full && !late && !missed.has_unreadable(),
            has_left_out: shared.left_out.into_inner(),
            missed,
        })
    }

    /// Checks one by one what existed before and was not found: a directory that has become
    /// unreadable, or a scan cut short, must not make files look removed.
    pub(super) fn fill_in(&self, before: &WorkspacePicture, seen: &mut ScanResult) {
        let mut found: Vec<Directory> = Vec::new();
        for directory in before.directories() {
            let now = seen.picture.directory(&directory.path);
            if is_complete(now, directory) {
                continue;
            }
            let mut again = Directory::new(directory.path.clone());
            for entry in &directory.entries {
                let name = directory.name(entry);
                if now.is_some_and(|now| has(now, name)) {
                    continue;
                }
                let path = directory.path_of(entry);
                match self.look_at(&path) {
                    Ok(identity) if identity.kind() == FileKind::Directory => {}
                    Ok(identity) => {
                        again.push(name, identity, self.content_of(entry, &identity));
                    }
                    // The directory may now be a symlink or a file: what was in it is gone.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(_) => {
                        seen.missed.add(Reason::UnreadableDirectory, &path);
                        again.push(name, entry.identity, entry.content);
                    }
                }
            }
            if !again.entries.is_empty() {
                found.push(again);
            }
        }
        seen.picture.add(found);
    }

    /// Adds what ignore rules left out before a command and must be on record all the same: what git
    /// tracks, and what the previous scan covered, so that no later ignore file hides it.
    pub(super) fn add_ignored(&self, known: &WorkspacePicture, seen: &mut ScanResult) {
        // Where nothing was left out, what is missing is gone; where a bound was hit, that is said.
        if !seen.has_left_out || !seen.is_whole {
            return;
        }
        let mut room = LookBudget {
            files: self.max_files.saturating_sub(seen.picture.files()),
            looks: 0,
            deadline: self.deadline,
            is_late: false,
            is_full: false,
        };
        let mut found: Vec<Directory> = Vec::new();
        for directory in known.directories() {
            let now = seen.picture.directory(&directory.path);
            if is_complete(now, directory) || is_in_build_directory(&directory.path) {
                continue;
            }
            let mut again = Directory::new(directory.path.clone());
            for entry in &directory.entries {
                let name = directory.name(entry);
                let path = directory.path_of(entry);
                if now.is_some_and(|now| has(now, name)) || self.tracked.has(&path) {
                    continue;
                }
                if let Some(identity) = self.look_within(&path, &mut room) {
                    again.push(name, identity, self.content_of(entry, &identity));
                }
            }
            found.push(again);
        }
        let mut here: (&[u8], Option<&Directory>) = (b"", seen.picture.directory(b""));
        for path in self.tracked.paths() {
            let (parent, name) = split_path(path);
            if here.0 != parent {
                here = (parent, seen.picture.directory(parent));
            }
            let now = here.1;
            if now.is_some_and(|now| has(now, name)) {
                continue;
            }
            if let Some(identity) = self.look_within(path, &mut room) {
                let entry = known.directory(parent).and_then(|known| {
                    let entry = known.entries.get(known.position(name))?;
                    (known.name(entry) == name).then_some(entry)
                });
                let content =
                    entry.map_or(Content::Unread, |entry| self.content_of(entry, &identity));
                let mut one = Directory::new(parent.to_vec());
                one.push(name, identity, content);
                found.push(one);
            }
        }
        found.retain(|directory| !directory.entries.is_empty());
        seen.picture.add(found);
        seen.looked_at = seen.picture.files() as u64;
        if room.is_late {
            seen.missed.add_plain(Reason::TooLate);
            seen.is_whole = false;
        } else if room.is_full {
            seen.missed.add_plain(Reason::TooManyFiles(self.max_files));
            seen.is_whole = false;
        }
    }

    /// Looks at one file within the bounds; `None` if there is none, or it is withheld.
    fn look_within(&self, path: &[u8], room: &mut LookBudget) -> Option<Identity> {
        let is_own = self.own.as_ref().is_some_and(|own| {
            let below = path.strip_prefix(own.as_slice());
            below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
        });
        if is_own || self.is_withheld(path) || !room.take() {
            return None;
        }
        let identity = self.look_at(path).ok()?;
        if identity.kind() == FileKind::Directory {
            return None;
        }
        room.files = room.files.saturating_sub(1);
        Some(identity)
    }

    /// Whether the settings leave out this file, or a directory that it is in.
    fn is_withheld(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = ends.filter_map(|(end, _)| path.get(..end));
        self.globs.withholds(path) || above.any(|directory| self.globs.withholds(directory))
    }

    fn look_at(&self, path: &[u8]) -> Result<Identity, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let file = self.jail.open_bytes(path, flags, Lookup::Full)?;
        Ok(Identity::of(&fstat(&file)?))
    }

    fn content_of(&self, entry: &Entry, identity: &Identity) -> Content {
        if *identity == entry.identity {
            carried(&entry.content, self.phase)
        } else {
            Content::Unread
        }
    }
}

/// How much may still be looked at one by one.
struct LookBudget {
    files: usize,
    looks: usize,
    deadline: Instant,
    is_late: bool,
    is_full: bool,
}

impl LookBudget {
    fn take(&mut self) -> bool {
        self.looks += 1;
        if self.looks.is_multiple_of(CLOCK_EVERY) && Instant::now() > self.deadline {
            self.is_late = true;
        }
        self.is_full |= self.files == 0;
        !self.is_late && !self.is_full
    }
}

/// The directory and the name of a path.
fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (
            path.get(..at).unwrap_or_default(),
            path.get(at + 1..).unwrap_or_default(),
        ),
        None => (&[], path),
    }
}

/// Whether a directory still has exactly these names.
fn is_complete(now: Option<&Directory>, before: &Directory) -> bool {
    now.is_some_and(|now| now.entries.len() == before.entries.len() && same_names(now, before))
}

fn same_names(a: &Directory, b: &Directory) -> bool {
    let pairs = a.entries.iter().zip(&b.entries);
    pairs.into_iter().all(|(x, y)| a.name(x) == b.name(y))
}

fn has(directory: &Directory, name: &[u8]) -> bool {
    directory
        .entries
        .get(directory.position(name))
        .is_some_and(|entry| directory.name(entry) == name)
}

/// What is known about the content of a file whose identity is unchanged.
fn carried(content: &Content, phase: Phase) -> Content {
    match content {
        Content::Kept { settled: true, .. } | Content::Link(_) => *content,
        Content::Kept { settled: false, .. } | Content::Unread | Content::Gone => Content::Unread,
        // Before a command it is tried once more; after it, it is no worse than before.
        Content::NotKept(_) => match phase {
            Phase::Before => Content::Unread,
            Phase::After => *content,
        },
    }
}

/// Rules are compared by address: a scan keeps those of the previous scan alive.
fn address(node: &Arc<IgnoreNode>) -> usize {
    Arc::as_ptr(node).addr()
}

struct ScanState<'a> {
    look: &'a ScanOptions,
    reference: &'a WorkspacePicture,
    remembered: &'a IgnoreCache,
    known_rules: HashSet<usize>,
    count: AtomicUsize,
    full: AtomicBool,
    late: AtomicBool,
    left_out: AtomicBool,
}

impl ScanState<'_> {
    fn is_cut(&self) -> bool {
        self.full.load(Ordering::Relaxed) || self.late.load(Ordering::Relaxed)
    }

    fn is_own(&self, path: &[u8]) -> bool {
        self.look.own.as_deref() == Some(path)
    }
}

/// Scans files on one thread of a walk.
struct ScanWorker<'a> {
    shared: &'a ScanState<'a>,
    pieces: Vec<Directory>,
    /// The directory of the last piece in the reference, and our position in it.
    known: Option<&'a Directory>,
    cursor: usize,
    seen: usize,
    nodes: Vec<(Vec<u8>, Arc<IgnoreNode>)>,
    missed: CoverageGaps,
}

impl ScanWorker<'_> {
    fn start_piece(&mut self, path: &[u8]) {
        self.known = self.shared.reference.directory(path);
        self.cursor = 0;
        self.pieces.push(Directory::new(path.to_vec()));
    }

    /// What is known about the content of this file.
    fn known_content(&mut self, name: &[u8], identity: &Identity) -> Content {
        let Some(known) = self.known else {
            return Content::Unread;
        };
        // Names arrive in order, so it is nearly always the next one.
        let is_next = |at: usize| {
            let entry = known.entries.get(at);
            entry.filter(|entry| known.name(entry) == name)
        };
        let entry = is_next(self.cursor).or_else(|| {
            self.cursor = known.position(name);
            is_next(self.cursor)
        });
        match entry {
            Some(entry) => {
                self.cursor += 1;
                if entry.identity == *identity {
                    carried(&entry.content, self.shared.look.phase)
                } else {
                    Content::Unread
                }
            }
            None => Content::Unread,
        }
    }
}

impl Visit for ScanWorker<'_> {
    fn wants_directory(&mut self, path: &[u8]) -> bool {
        !self.shared.is_cut() && !self.shared.is_own(path)
    }

    fn entry(&mut self, entry: &VisitedEntry<'_>) {
        if entry.kind == FileKind::Directory || self.shared.is_cut() {
            return;
        }
        self.seen += 1;
        if self.seen.is_multiple_of(CLOCK_EVERY) && Instant::now() > self.shared.look.deadline {
            self.shared.late.store(true, Ordering::Relaxed);
            return;
        }
        if self.shared.count.fetch_add(1, Ordering::Relaxed) >= self.shared.look.max_files {
            self.shared.full.store(true, Ordering::Relaxed);
            return;
        }
        let name = entry.name.to_bytes();
        let directory = entry.path.len().saturating_sub(name.len() + 1);
        let directory = entry.path.get(..directory).unwrap_or_default();
        // One part of a large directory may continue with names before the last one of another
        // part.
        let goes_on = self.pieces.last().is_some_and(|piece| {
            let last = piece.entries.last();
            piece.path == directory && last.is_none_or(|last| piece.name(last) < name)
        });
        if !goes_on {
            self.start_piece(directory);
        }
        // If it is gone already, it counts as never having existed.
        let Ok(stat) = statat(entry.directory, entry.name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        let identity = Identity::of(&stat);
        if identity.kind() == FileKind::Directory {
            return;
        }
        let content = self.known_content(name, &identity);
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(name, identity, content);
        }
    }

    fn rules(
        &mut self,
        jail: &Jail,
        entered: &EnteredDirectory<'_>,
        above: Option<Arc<IgnoreNode>>,
    ) -> Option<Arc<IgnoreNode>> {
        self.start_piece(entered.path);
        if self.shared.look.phase == Phase::After && self.known.is_some() {
            let own = self.shared.remembered.nodes.get(entered.path);
            return own.cloned().or(above);
        }
        let inherited = above.as_ref().map(address);
        let tracked = &self.shared.look.tracked;
        let confirm = |path: &[u8], content: &[u8]| tracked.confirms(path, content);
        let rules = entered.rules(jail, IgnoreFiles::Confirmed(&confirm), above)?;
        if inherited != Some(address(&rules)) {
            self.nodes.push((entered.path.to_vec(), Arc::clone(&rules)));
        }
        Some(rules)
    }

    fn left_out(&mut self, path: &[u8], rules: Option<&IgnoreNode>) {
        let name = path.rsplit(|byte| *byte == b'/').next();
        if name == Some(b".git") {
            return;
        }
        self.shared.left_out.store(true, Ordering::Relaxed);
        if self.shared.look.phase == Phase::Before {
            return;
        }
        let by_new = rules.is_some_and(|rules| {
            let rules = std::ptr::from_ref(rules).addr();
            !self.shared.known_rules.contains(&rules)
        });
        if by_new {
            self.missed.add(Reason::IgnoredByNew, path);
        }
    }

    fn passed_over(&mut self, path: &[u8], why: Errno) {
        match why {
            // It vanished, or is something else now.
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {}
            _ => self.missed.add(Reason::UnreadableDirectory, path),
        }
    }
}
