//! The whole state of the repository at one moment, and what differs between two.
//!
//! Bounded in refs and bytes. What is not read is noticed when it changes, and named.

use std::collections::{BTreeMap, BTreeSet};

use haft_contract::{WorkPath, ops::GitPart};
use haft_sandbox::jail::{Jail, Lookup};
use rustix::{
    fs::{FileType, OFlags, fstat},
    io::Errno,
};

use super::{
    file::{self, GitFileLookup},
    objects::{ObjectCount, ObjectLookup},
    part,
    refs::{self, RefsReading},
    tracked::TrackedFiles,
    unfinished,
};
use crate::local::walk::shown;

/// The most bytes of reflogs together.
const MAX_LOGS_BYTES: u64 = 8 << 20;

/// The most reflogs that are read.
const MAX_LOGS: usize = 5_000;

/// The reflogs that are read however many there are: of `HEAD`, and the list of stashes.
const ALWAYS_READ_LOGS: [&str; 2] = [".git/logs/HEAD", ".git/logs/refs/stash"];

/// The most linked work trees that are looked at.
const MAX_TREES: usize = 256;

/// What git writes into the reflog of a remote's branch when it pushes.
const PUSHED: &str = "update by push";

/// How many bytes of a reflog's end are looked at.
const TAIL_BYTES: usize = 4096;

/// The state of a repository.
pub(crate) struct RepositoryState {
    parts: BTreeMap<String, StatePart>,
    /// What is there and was not read.
    unread: BTreeMap<String, String>,
    /// Refs that say what a remote has.
    remotes: BTreeMap<String, String>,
    /// `HEAD` of each linked work tree.
    trees: BTreeMap<String, Vec<u8>>,
    unfinished: Vec<&'static str>,
    objects: Option<ObjectCount>,
    /// Files that keep git from changing another.
    locks: BTreeSet<String>,
    /// Why no ref was read.
    refs_gap: Option<RepositoryGap>,
    /// Whether there are too many reflogs to read them.
    too_many_logs: bool,
}

/// A part of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatePart {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    /// What it holds, as a version says it.
    pub(crate) holds: String,
}

/// A part that differs.
pub(crate) struct RepositoryChange {
    pub(crate) path: WorkPath,
    pub(crate) before: Option<StatePart>,
    pub(crate) after: Option<StatePart>,
}

/// What a comparison does not cover, or what cannot be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RepositoryGap {
    /// A push.
    Pushed,
    /// Refs of a remote moved in another way.
    Fetched,
    /// Objects are gone.
    ObjectsGone,
    /// Git is, or was, in the middle of something.
    Unfinished,
    /// The command left git in the middle of something.
    MadeUnfinished,
    /// The command left a lock behind.
    MadeLock,
    /// A linked work tree was made, moved or removed.
    LinkedTree,
    /// A part changed that was not read.
    Unread,
    /// There are too many refs to read.
    TooManyRefs,
    /// Refs could not be read.
    RefsUnread,
    /// There are too many reflogs to read.
    TooManyLogs,
    /// Refs are in a form that is not read.
    Reftable,
    /// The repository is not in the workspace.
    Elsewhere,
    /// It could not be read.
    Unreadable,
}

impl RepositoryState {
    /// Reads the state; `None` if there is no repository. Fails with the reason why it cannot be
    /// covered.
    pub(crate) fn read(jail: &Jail) -> Result<Option<Self>, RepositoryGap> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let kind = jail
            .open_bytes(b".git", flags, Lookup::Full)
            .and_then(|found| fstat(&found))
            .map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Directory) => {}
            Ok(_) | Err(Errno::XDEV) => return Err(RepositoryGap::Elsewhere),
            Err(Errno::NOENT) => return Ok(None),
            Err(_) => return Err(RepositoryGap::Unreadable),
        }
        if jail
            .open_bytes(b".git/reftable", flags, Lookup::Full)
            .is_ok()
        {
            return Err(RepositoryGap::Reftable);
        }
        Self::read_parts(jail)
            .map(Some)
            .map_err(|_| RepositoryGap::Unreadable)
    }

    fn read_parts(jail: &Jail) -> Result<Self, Errno> {
        let mut state = Self {
            parts: BTreeMap::new(),
            unread: BTreeMap::new(),
            remotes: BTreeMap::new(),
            trees: linked_trees(jail)?,
            unfinished: unfinished(jail)?,
            objects: ObjectLookup::new(jail)?.count()?,
            locks: top_locks(jail)?,
            refs_gap: None,
            too_many_logs: false,
        };
        state.read_refs(jail)?;
        let single = GitPart::single_files();
        for path in [".git/HEAD".to_owned(), ".git/index".to_owned()]
            .into_iter()
            .chain(single)
        {
            state.read_part(jail, path)?;
        }
        state.read_logs(jail)?;
        Ok(state)
    }

    fn read_refs(&mut self, jail: &Jail) -> Result<(), Errno> {
        let all = match refs::read_all(jail)? {
            RefsReading::All(all) => all,
            RefsReading::TooMany => {
                self.refs_gap = Some(RepositoryGap::TooManyRefs);
                return Ok(());
            }
            RefsReading::Unread => {
                self.refs_gap = Some(RepositoryGap::RefsUnread);
                return Ok(());
            }
        };
        self.unread.extend(all.unread);
        self.locks.extend(all.locks);
        for (path, found) in all.values {
            if path.starts_with(".git/refs/remotes/") {
                self.remotes.insert(path, found.value);
            } else if part_of(&path) == Some(GitPart::Ref) {
                let part = StatePart {
                    bytes: part::loose(&found.value),
                    mode: found.mode,
                    holds: found.value,
                };
                self.parts.insert(path, part);
            }
        }
        Ok(())
    }

    fn read_logs(&mut self, jail: &Jail) -> Result<(), Errno> {
        let Some(logs) = refs::files_below(jail, ".git/logs", MAX_LOGS)? else {
            self.too_many_logs = true;
            for path in ALWAYS_READ_LOGS {
                self.read_part(jail, path.to_owned())?;
            }
            return Ok(());
        };
        self.locks.extend(logs.locks);
        let mut left = MAX_LOGS_BYTES;
        for path in logs.files {
            // A ref whose name is not text is unread, and so is its log.
            let Ok(path) = String::from_utf8(path) else {
                continue;
            };
            match part_of(&path) {
                Some(GitPart::Log | GitPart::StashLog) => {}
                _ => continue,
            }
            let read = self.read_within(jail, path, left.min(part::MAX_LOG_BYTES))?;
            left = left.saturating_sub(read);
        }
        Ok(())
    }

    fn read_part(&mut self, jail: &Jail, path: String) -> Result<(), Errno> {
        if let Some(part) = part_of(&path) {
            self.read_within(jail, path, part::max_bytes(part))?;
        }
        Ok(())
    }

    /// Returns how many bytes were read.
    fn read_within(&mut self, jail: &Jail, path: String, most: u64) -> Result<u64, Errno> {
        let Some(part) = part_of(&path) else {
            return Ok(0);
        };
        match file::read(jail, &path, most)? {
            GitFileLookup::Absent => Ok(0),
            GitFileLookup::Unread(identity) => {
                self.unread.insert(path, identity);
                Ok(0)
            }
            GitFileLookup::File(file) => {
                let read = file.bytes.len() as u64;
                if let Some(holds) = part::holds(part, &file.bytes) {
                    let part = StatePart {
                        bytes: file.bytes,
                        mode: file.mode,
                        holds,
                    };
                    self.parts.insert(path, part);
                } else {
                    let hash = blake3::hash(&file.bytes).to_hex().to_string();
                    self.unread.insert(path, hash);
                }
                Ok(read)
            }
        }
    }

    /// What changed from this state to a later one, and what of it is not covered.
    pub(crate) fn compare(
        mut self,
        mut later: Self,
        jail: &Jail,
        mut gap: impl FnMut(RepositoryGap, &str),
    ) -> Vec<RepositoryChange> {
        if let Some(reason) = self.refs_gap.or(later.refs_gap) {
            gap(reason, "");
            // A ref that was only read once did not come or go.
            let is_ref = |path: &String| part_of(path) == Some(GitPart::Ref);
            self.parts.retain(|path, _| !is_ref(path));
            later.parts.retain(|path, _| !is_ref(path));
            let is_ref = |path: &String| path.starts_with(".git/refs/") || path == refs::PACKED;
            self.unread.retain(|path, _| !is_ref(path));
            later.unread.retain(|path, _| !is_ref(path));
            self.remotes.clear();
            later.remotes.clear();
        }
        if self.too_many_logs || later.too_many_logs {
            gap(RepositoryGap::TooManyLogs, "");
            let is_read_twice = |path: &String| {
                part_of(path) != Some(GitPart::Log) || ALWAYS_READ_LOGS.contains(&path.as_str())
            };
            self.parts.retain(|path, _| is_read_twice(path));
            later.parts.retain(|path, _| is_read_twice(path));
        }
        let unread: BTreeSet<String> = self
            .unread
            .keys()
            .chain(later.unread.keys())
            .cloned()
            .collect();
        for path in &unread {
            let (before, after) = (self.parts.remove(path), later.parts.remove(path));
            let is_read_once = before.is_some() || after.is_some();
            if is_read_once || self.unread.get(path) != later.unread.get(path) {
                gap(RepositoryGap::Unread, path);
            }
        }
        let paths: BTreeSet<String> = self
            .parts
            .keys()
            .chain(later.parts.keys())
            .cloned()
            .collect();
        let mut changes = Vec::new();
        for path in paths {
            let (before, after) = (self.parts.remove(&path), later.parts.remove(&path));
            let holds = |part: &Option<StatePart>| part.as_ref().map(|part| part.holds.clone());
            if holds(&before) == holds(&after) {
                continue;
            }
            match WorkPath::relative(&path) {
                Ok(plain) if plain.as_str() == path => changes.push(RepositoryChange {
                    path: plain,
                    before,
                    after,
                }),
                _ => gap(RepositoryGap::Unread, &path),
            }
        }
        self.compare_surroundings(&later, jail, !changes.is_empty(), &mut gap);
        changes
    }

    fn compare_surroundings(
        &self,
        later: &Self,
        jail: &Jail,
        has_changes: bool,
        gap: &mut impl FnMut(RepositoryGap, &str),
    ) {
        let remotes: BTreeSet<&String> = self.remotes.keys().chain(later.remotes.keys()).collect();
        for path in remotes {
            if self.remotes.get(path) == later.remotes.get(path) {
                continue;
            }
            let name = path.strip_prefix(".git/refs/remotes/").unwrap_or(path);
            let kind = if was_pushed(jail, path) {
                RepositoryGap::Pushed
            } else {
                RepositoryGap::Fetched
            };
            gap(kind, name);
        }
        if let (Some(ObjectCount(before)), Some(ObjectCount(after))) = (self.objects, later.objects)
            && after < before
        {
            gap(RepositoryGap::ObjectsGone, "");
        }
        self.compare_obstacles(later, has_changes, gap);
        let trees: BTreeSet<&String> = self.trees.keys().chain(later.trees.keys()).collect();
        for tree in trees {
            if self.trees.get(tree) != later.trees.get(tree) {
                gap(RepositoryGap::LinkedTree, tree);
            }
        }
    }
}

impl RepositoryState {
    /// The files that the index names; nothing if it cannot be read.
    pub(crate) fn tracked(&self) -> TrackedFiles {
        let index = self.parts.get(".git/index");
        index
            .and_then(|index| TrackedFiles::of(&index.bytes))
            .unwrap_or_default()
    }

    /// Names what keeps the state from being put back, and whether the command made it.
    fn compare_obstacles(
        &self,
        later: &Self,
        has_changes: bool,
        gap: &mut impl FnMut(RepositoryGap, &str),
    ) {
        let in_progress: BTreeSet<&&str> =
            self.unfinished.iter().chain(&later.unfinished).collect();
        for name in in_progress {
            let (was, is) = (
                self.unfinished.contains(name),
                later.unfinished.contains(name),
            );
            let path = format!(".git/{name}");
            if is && !was {
                gap(RepositoryGap::MadeUnfinished, &path);
            } else if is != was || has_changes {
                gap(RepositoryGap::Unfinished, &path);
            }
        }
        for lock in later.locks.difference(&self.locks) {
            gap(RepositoryGap::MadeLock, lock);
        }
    }
}

/// Locks on files of `.git` itself.
fn top_locks(jail: &Jail) -> Result<BTreeSet<String>, Errno> {
    let names = file::names(jail, ".git")?;
    let locks = names.into_iter().filter(|(name, _)| refs::is_lock(name));
    Ok(locks
        .map(|(name, _)| format!(".git/{}", shown(&name).0))
        .collect())
}

fn part_of(path: &str) -> Option<GitPart> {
    GitPart::of(&WorkPath::relative(path).ok()?)
}

/// `HEAD` of each linked work tree of this repository.
fn linked_trees(jail: &Jail) -> Result<BTreeMap<String, Vec<u8>>, Errno> {
    let mut trees = BTreeMap::new();
    let names = file::names(jail, ".git/worktrees")?;
    for (name, _) in names.into_iter().take(MAX_TREES) {
        let path = [&b".git/worktrees/"[..], &name, b"/HEAD"].concat();
        if let GitFileLookup::File(head) = file::read(jail, &path, refs::MAX_REF_BYTES)? {
            trees.insert(shown(&name).0, head.bytes);
        }
    }
    Ok(trees)
}

/// Whether the last change of a remote's ref was a push, as its reflog says.
fn was_pushed(jail: &Jail, path: &str) -> bool {
    let log = path.replacen(".git/", ".git/logs/", 1);
    let Ok(GitFileLookup::File(log)) = file::read(jail, &log, part::MAX_LOG_BYTES) else {
        return false;
    };
    let tail = log.bytes.len().saturating_sub(TAIL_BYTES);
    let tail = String::from_utf8_lossy(log.bytes.get(tail..).unwrap_or_default());
    tail.lines()
        .next_back()
        .is_some_and(|line| line.contains(PUSHED))
}
