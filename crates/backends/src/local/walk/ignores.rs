//! Ignore files, read through the jail. `.ignore` and `.rgignore` win over `.gitignore`, which wins
//! over `.git/info/exclude`; deeper ones win over those above. The user's global git configuration
//! is not read: it lies outside the workspace.
//!
//! A search reads all of them. A comparison of the workspace before and after a command must not
//! let the agent decide what is on record, so there only a `.gitignore` that git's index confirms
//! counts in full ([`IgnoreFiles::Confirmed`]).

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

/// Directories that hold what builds and package managers make. An ignore file that nobody confirms
/// may leave them out: they are large, and made again by a command.
const BUILD_DIRECTORIES: [&[u8]; 30] = [
    b".cache",
    b".dart_tool",
    b".direnv",
    b".gradle",
    b".mypy_cache",
    b".next",
    b".nox",
    b".nuxt",
    b".parcel-cache",
    b".pytest_cache",
    b".ruff_cache",
    b".svelte-kit",
    b".terraform",
    b".tox",
    b".turbo",
    b".venv",
    b".zig-cache",
    b"DerivedData",
    b"Pods",
    b"__pycache__",
    b"_build",
    b"bower_components",
    b"build",
    b"coverage",
    b"dist",
    b"dist-newstyle",
    b"node_modules",
    b"target",
    b"venv",
    b"zig-out",
];

/// Which ignore files count, and how far.
#[derive(Clone, Copy)]
pub(crate) enum IgnoreFiles<'a> {
    /// All of them, as in a search.
    All,
    /// `.gitignore` where this confirms its path and content. `.gitignore` elsewhere and
    /// `.git/info/exclude` leave out build directories only; `.ignore` and `.rgignore` nothing.
    Confirmed(&'a (dyn Fn(&[u8], &[u8]) -> bool + Sync)),
}

/// Whether a path leads through a directory that builds make.
pub(crate) fn is_in_build_directory(directory: &[u8]) -> bool {
    let mut names = directory.split(|byte| *byte == b'/');
    names.any(|name| BUILD_DIRECTORIES.contains(&name))
}

/// How much rules may leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleReach {
    Everything,
    BuildDirectories,
}

/// The rules of one or two files.
struct RuleSet {
    rules: Gitignore,
    reach: RuleReach,
}

impl RuleSet {
    fn empty() -> Self {
        Self {
            rules: Gitignore::empty(),
            reach: RuleReach::Everything,
        }
    }

    fn matched(&self, path: &[u8], is_directory: bool) -> Match<()> {
        let found = self
            .rules
            .matched(Path::new(OsStr::from_bytes(path)), is_directory);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        match (found, self.reach) {
            (Match::None, _) => Match::None,
            (Match::Whitelist(_), _) => Match::Whitelist(()),
            (Match::Ignore(_), RuleReach::BuildDirectories)
                if !(is_directory && BUILD_DIRECTORIES.contains(&name)) =>
            {
                Match::None
            }
            (Match::Ignore(_), _) => Match::Ignore(()),
        }
    }
}

/// The ignore files of one directory, linked to those above it.
pub(crate) struct IgnoreNode {
    above: Option<Arc<Self>>,
    plain: RuleSet,
    git: RuleSet,
    exclude: RuleSet,
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
        files: IgnoreFiles<'_>,
        above: Option<Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let source = IgnoreSource {
            jail,
            directory,
            path,
            files,
        };
        source.load(|name| names.has(name), above)
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
            let source = IgnoreSource {
                jail,
                directory: directory.as_fd(),
                path,
                files: IgnoreFiles::All,
            };
            node = source.load(|_| true, node);
        }
        node
    }

    /// Whether these rules leave out a path, relative to the workspace.
    pub(crate) fn ignores(&self, path: &[u8], is_directory: bool) -> bool {
        self.decide(|node| node.plain.matched(path, is_directory), false)
            .or_else(|| self.decide(|node| node.git.matched(path, is_directory), true))
            .or_else(|| self.decide(|node| node.exclude.matched(path, is_directory), true))
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

/// A directory whose ignore files are read.
struct IgnoreSource<'a> {
    jail: &'a Jail,
    directory: BorrowedFd<'a>,
    path: &'a [u8],
    files: IgnoreFiles<'a>,
}

impl IgnoreSource<'_> {
    fn load(
        &self,
        has: impl Fn(&[u8]) -> bool,
        above: Option<Arc<IgnoreNode>>,
    ) -> Option<Arc<IgnoreNode>> {
        let is_repository = has(b".git")
            && self
                .jail
                .open_beneath(self.directory, ".git", OFlags::PATH | OFlags::NOFOLLOW)
                .is_ok();
        if !(is_repository || has(b".gitignore") || has(b".ignore") || has(b".rgignore")) {
            return above;
        }
        let inherited = above.as_ref().map_or(0, |node| node.patterns);
        let mut left = MAX_PATTERNS.min(MAX_PATTERNS_IN_FORCE.saturating_sub(inherited));
        let most = left;
        let mut read = |files: &[&str]| {
            let mut rules = GitignoreBuilder::new(OsStr::from_bytes(self.path));
            let mut reach = RuleReach::Everything;
            for file in files {
                let name = file.split('/').next().unwrap_or(file);
                if !has(name.as_bytes()) {
                    continue;
                }
                let Some(content) = read_file(self.jail, self.directory, file) else {
                    continue;
                };
                reach = self.reach(file, &content);
                left -= add_lines(&content, left, &mut rules);
            }
            let rules = rules.build().unwrap_or_else(|_| Gitignore::empty());
            RuleSet { rules, reach }
        };
        let node = IgnoreNode {
            plain: match self.files {
                IgnoreFiles::All => read(&[".ignore", ".rgignore"]),
                IgnoreFiles::Confirmed(_) => RuleSet::empty(),
            },
            git: read(&[".gitignore"]),
            exclude: read(&[".git/info/exclude"]),
            is_repository,
            patterns: inherited + (most - left),
            above,
        };
        let sets = [&node.plain, &node.git, &node.exclude];
        if sets.iter().all(|set| set.rules.is_empty()) && !is_repository {
            return node.above;
        }
        Some(Arc::new(node))
    }

    /// How much a file with this content may leave out.
    fn reach(&self, file: &str, content: &[u8]) -> RuleReach {
        let IgnoreFiles::Confirmed(confirm) = self.files else {
            return RuleReach::Everything;
        };
        let mut path = self.path.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(file.as_bytes());
        // Python puts an ignore file that leaves out everything into its own directories.
        if is_in_build_directory(self.path) || confirm(&path, content) {
            RuleReach::Everything
        } else {
            RuleReach::BuildDirectories
        }
    }
}

/// The content of an ignore file, as far as it is read, if it is a regular file.
fn read_file(jail: &Jail, directory: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = jail.open_beneath(directory, name, flags).ok()?;
    let stat = fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::with_capacity(4096);
    while bytes.len() < MAX_IGNORE_BYTES {
        let at = bytes.len() as u64;
        match pread(&file, spare_capacity(&mut bytes), at) {
            Ok(0) | Err(_) => break,
            Ok(_) => bytes.reserve(4096),
        }
    }
    Some(bytes)
}

/// Adds the lines of an ignore file and returns how many; at most `most`. A line that is not a valid
/// pattern is skipped, as in git.
fn add_lines(bytes: &[u8], most: usize, rules: &mut GitignoreBuilder) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.strip_prefix('\u{feff}').unwrap_or(&text).lines();
    let patterns = lines.filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut added = 0;
    for pattern in patterns.take(most) {
        let _ = rules.add_line(None, pattern);
        added += 1;
    }
    added
}
