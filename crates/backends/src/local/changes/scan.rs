//! Scans the whole workspace: the state of every file, and what is known about its content from the
//! previous scan. Opens directories only; `keep.rs` reads files.
//!
//! After a command, the ignore files from before it apply in every directory that existed: a
//! command can neither hide what it changed nor make ignored files look new.

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
    picture::{Content, Directory, Identity, WorkspacePicture},
};
use crate::local::walk::{EnteredDirectory, Globs, IgnoreNode, Visit, VisitedEntry, walk};

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
            missed,
        })
    }

    /// Checks one by one what existed before and was not found: a directory that has become
    /// unreadable, or a scan cut short, must not make files look removed.
    pub(super) fn fill_in(&self, before: &WorkspacePicture, seen: &mut ScanResult) {
        let mut found: Vec<Directory> = Vec::new();
        for directory in before.directories() {
            let now = seen.picture.directory(&directory.path);
            if now.is_some_and(|now| now.entries.len() == directory.entries.len())
                && now.is_some_and(|now| same_names(now, directory))
            {
                continue;
            }
            let mut again = Directory::new(directory.path.clone());
            for entry in &directory.entries {
                let name = directory.name(entry);
                if now.is_some_and(|now| has(now, name)) {
                    continue;
                }
                let path = directory.path_of(entry);
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let stat = self
                    .jail
                    .open_bytes(&path, flags, Lookup::Full)
                    .and_then(|file| fstat(&file));
                match stat.map(|stat| Identity::of(&stat)) {
                    Ok(identity) if identity.kind() == FileKind::Directory => {}
                    Ok(identity) => {
                        let content = if identity == entry.identity {
                            carried(&entry.content, Phase::After)
                        } else {
                            Content::Unread
                        };
                        again.push(name, identity, content);
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
        let rules = IgnoreNode::enter(jail, entered.directory, entered.path, entered.names, above)?;
        if inherited != Some(address(&rules)) {
            self.nodes.push((entered.path.to_vec(), Arc::clone(&rules)));
        }
        Some(rules)
    }

    fn left_out(&mut self, path: &[u8], rules: Option<&IgnoreNode>) {
        let name = path.rsplit(|byte| *byte == b'/').next();
        if self.shared.look.phase == Phase::Before || name == Some(b".git") {
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
