//! Ignore files, read through the jail. `.ignore` and `.rgignore` win over `.gitignore`, which wins
//! over `.git/info/exclude`; deeper ones win over those above. The user's global git configuration
//! is not read: it lies outside the workspace.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
};

use haft_contract::WorkPath;
use haft_sandbox::jail::{Jail, Lookup};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::{
    buffer::spare_capacity,
    fs::{FileType, OFlags, fstat},
    io::pread,
};

use super::DirectoryNames;

/// The most bytes read of an ignore file; the rest is ignored.
const MAX_IGNORE_BYTES: usize = 256 * 1024;

/// The most patterns from the ignore files of one directory; the rest is ignored. Patterns are
/// compiled into one automaton, which takes time and memory and cannot be interrupted.
const MAX_PATTERNS: usize = 2_000;

/// The most patterns in force at one place, including those of the directories above.
const MAX_PATTERNS_IN_FORCE: usize = 6_000;

/// Whether a walk leaves out what ignore files list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ignores {
    Respect,
    WalkAll,
}

impl Ignores {
    /// From the contract's flag.
    pub(crate) fn from_flag(respect: bool) -> Self {
        if respect {
            Self::Respect
        } else {
            Self::WalkAll
        }
    }
}

/// The ignore files of one directory, linked to those above it.
pub(crate) struct IgnoreNode {
    above: Option<Arc<Self>>,
    plain: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    /// Whether this directory is the top of a repository, where git stops looking further up.
    is_repository: bool,
    /// How many patterns are in force here.
    patterns: usize,
}

impl IgnoreNode {
    /// The rules for a directory: those above, and its own if it has any. `names` are the
    /// directory's names.
    pub(crate) fn enter(
        jail: &Jail,
        directory: BorrowedFd<'_>,
        path: &[u8],
        names: &DirectoryNames,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        Self::load(jail, directory, path, |name| names.has(name), above)
    }

    /// The rules that apply above a directory, from the root down.
    pub(crate) fn above(jail: &Jail, path: &WorkPath) -> Option<Arc<Self>> {
        let mut node = None;
        let mut ancestors: Vec<WorkPath> = Vec::new();
        let mut at = path.clone();
        while let Some(parent) = at.parent() {
            ancestors.push(parent.clone());
            at = parent;
        }
        for ancestor in ancestors.iter().rev() {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let Ok(directory) = jail.open_at(ancestor, flags, Lookup::Full) else {
                break;
            };
            let path = if ancestor.is_root() {
                &[]
            } else {
                ancestor.as_str().as_bytes()
            };
            node = Self::load(jail, directory.as_fd(), path, |_| true, node);
        }
        node
    }

    fn load(
        jail: &Jail,
        directory: BorrowedFd<'_>,
        path: &[u8],
        has: impl Fn(&[u8]) -> bool,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let is_repository = has(b".git")
            && jail
                .open_beneath(directory, ".git", OFlags::PATH | OFlags::NOFOLLOW)
                .is_ok();
        if !(is_repository || has(b".gitignore") || has(b".ignore") || has(b".rgignore")) {
            return above;
        }
        let inherited = above.as_ref().map_or(0, |node| node.patterns);
        let mut left = MAX_PATTERNS.min(MAX_PATTERNS_IN_FORCE.saturating_sub(inherited));
        let most = left;
        let mut read = |files: &[&str]| {
            let mut rules = GitignoreBuilder::new(OsStr::from_bytes(path));
            for file in files {
                let name = file.split('/').next().unwrap_or(file);
                if has(name.as_bytes()) {
                    left -= add_lines(jail, directory, file, left, &mut rules);
                }
            }
            rules.build().unwrap_or_else(|_| Gitignore::empty())
        };
        let node = Self {
            plain: read(&[".ignore", ".rgignore"]),
            git: read(&[".gitignore"]),
            exclude: read(&[".git/info/exclude"]),
            is_repository,
            patterns: inherited + (most - left),
            above,
        };
        let quiet = node.plain.is_empty() && node.git.is_empty() && node.exclude.is_empty();
        if quiet && !is_repository {
            return node.above;
        }
        Some(Arc::new(node))
    }

    /// Whether these rules leave out a path, relative to the workspace.
    pub(crate) fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.decide(
            |node| node.plain.matched(path, is_directory).map(drop),
            false,
        )
        .or_else(|| self.decide(|node| node.git.matched(path, is_directory).map(drop), true))
        .or_else(|| {
            self.decide(
                |node| node.exclude.matched(path, is_directory).map(drop),
                true,
            )
        })
        .unwrap_or(false)
    }

    /// The first verdict from here upwards; git's own rules stop at the top of a repository.
    fn decide(&self, matched: impl Fn(&Self) -> Match<()>, git: bool) -> Option<bool> {
        let mut node = Some(self);
        while let Some(here) = node {
            match matched(here) {
                Match::Ignore(()) => return Some(true),
                Match::Whitelist(()) => return Some(false),
                Match::None => {}
            }
            if git && here.is_repository {
                return None;
            }
            node = here.above.as_deref();
        }
        None
    }
}

/// Adds the lines of an ignore file, if it exists and is a regular file, and returns how many; at
/// most `most`. A line that is not a valid pattern is skipped, as in git.
fn add_lines(
    jail: &Jail,
    directory: BorrowedFd<'_>,
    name: &str,
    most: usize,
    rules: &mut GitignoreBuilder,
) -> usize {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = jail.open_beneath(directory, name, flags) else {
        return 0;
    };
    let is_regular = fstat(&file)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    if !is_regular {
        return 0;
    }
    let mut bytes = Vec::with_capacity(4096);
    while bytes.len() < MAX_IGNORE_BYTES {
        let at = bytes.len() as u64;
        match pread(&file, spare_capacity(&mut bytes), at) {
            Ok(0) | Err(_) => break,
            Ok(_) => bytes.reserve(4096),
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.strip_prefix('\u{feff}').unwrap_or(&text).lines();
    let patterns = lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut added = 0;
    for pattern in patterns.take(most) {
        let _ = rules.add_line(None, pattern);
        added += 1;
    }
    added
}
