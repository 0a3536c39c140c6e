//! The names that must not appear while a command runs, and whether they exist now.
//!
//! Lookups follow no symlink, so a link in the workspace can never make Haft touch a file outside
//! it that happens to have such a name.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    sync::LazyLock,
};

use haft_contract::protected::PROTECTED_NAMES;
use rustix::{
    fs::{AtFlags, FileType, OFlags, statat},
    io::Errno,
};

use crate::jail::{Jail, Lookup};

const GIT_DIRECTORY: &str = ".git";

/// What in an existing `.git` would make git run something, or look for its settings elsewhere.
/// Nothing that `git commit`, `fetch` or `rebase` creates.
const IN_GIT: [&str; 6] = [
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "remotes",
];

const IN_GIT_REASON: &str = "git runs programs named in files here";

/// Together with a `HEAD`, either the first or the other two make git treat a directory as its own.
const BARE_PARTS: [&str; 3] = ["commondir", "objects", "refs"];

/// A path below the root that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchedPlace {
    /// Below the root.
    pub(super) path: String,
    /// Why it is watched, as the end of a sentence that names it.
    pub(super) reason: &'static str,
}

/// Every place that is watched, always in the same order.
pub(super) static GUARDED: LazyLock<Vec<WatchedPlace>> = LazyLock::new(|| {
    let named = PROTECTED_NAMES.iter().map(|name| WatchedPlace {
        path: name.to_string(),
        reason: name.reason,
    });
    let in_git = IN_GIT.iter().map(|name| WatchedPlace {
        path: format!("{GIT_DIRECTORY}/{name}"),
        reason: IN_GIT_REASON,
    });
    named.chain(in_git).collect()
});

/// What is at a watched place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceLookup {
    /// Nothing.
    Absent,
    /// Something.
    There,
    /// Its directory cannot be opened: it is a symlink, or not accessible.
    Cloaked,
}

impl WatchedPlace {
    /// The directory to watch in order to see it appear, and its name in there.
    pub(super) fn split(&self) -> (&str, &str) {
        self.path.rsplit_once('/').unwrap_or((".", &self.path))
    }

    fn look(&self, directory: &Result<OwnedFd, Errno>) -> PlaceLookup {
        let held = match directory {
            Ok(held) => held,
            Err(Errno::LOOP | Errno::ACCESS) => return PlaceLookup::Cloaked,
            Err(_) => return PlaceLookup::Absent,
        };
        match statat(held, self.split().1, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => PlaceLookup::There,
            Err(Errno::ACCESS) => PlaceLookup::Cloaked,
            Err(_) => PlaceLookup::Absent,
        }
    }

    /// What to move away when the place cannot be looked into any more. A `.git` that existed
    /// before is never moved: git cannot look into it either.
    pub(super) fn cloak(&self) -> Option<&str> {
        match self.path.split_once('/') {
            Some((directory, _)) if directory != GIT_DIRECTORY => Some(directory),
            Some(_) | None => None,
        }
    }
}

/// What is at each guarded place now.
pub(super) fn look(jail: &Jail) -> Vec<PlaceLookup> {
    let held: BTreeMap<&str, Result<OwnedFd, Errno>> = directories()
        .map(|directory| (directory, open(jail, directory)))
        .collect();
    GUARDED
        .iter()
        .map(|guarded| match held.get(guarded.split().0) {
            Some(directory) => guarded.look(directory),
            None => PlaceLookup::Absent,
        })
        .collect()
}

/// Every directory to watch.
pub(super) fn directories() -> impl Iterator<Item = &'static str> {
    let mut directories: Vec<&str> = GUARDED.iter().map(|guarded| guarded.split().0).collect();
    directories.sort_unstable();
    directories.dedup();
    directories.into_iter()
}

/// Whether an entry of this name in some watched directory is worth a look. Ignores case: where a
/// directory does, so does the lookup that follows.
pub(super) fn is_suspect(name: &[u8]) -> bool {
    let same = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    GUARDED
        .iter()
        .any(|guarded| guarded.path.split('/').any(same))
        || BARE_PARTS.into_iter().any(same)
        || same("HEAD")
        // Case folding covers more than ASCII.
        || !name.is_ascii()
}

/// The parts of a git directory that are in the root itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BareGitParts {
    head: bool,
    parts: [bool; BARE_PARTS.len()],
}

impl BareGitParts {
    /// Looks at the root.
    pub(super) fn look(jail: &Jail) -> Self {
        let Ok(root) = open(jail, ".") else {
            return Self::default();
        };
        let kind = |name: &str| {
            let stat = statat(&root, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(FileType::from_raw_mode(stat.st_mode))
        };
        Self {
            head: kind("HEAD").is_some_and(|kind| kind != FileType::Directory),
            parts: BARE_PARTS.map(|name| kind(name).is_some()),
        }
    }

    fn is_git_directory(self) -> bool {
        let [commondir, objects, refs] = self.parts;
        self.head && (commondir || (objects && refs))
    }

    /// What to move away so that the root is no git directory, if it has become one since.
    pub(super) fn completed_by(self, now: Self) -> Option<&'static str> {
        if self.is_git_directory() || !now.is_git_directory() {
            return None;
        }
        if !self.head {
            return Some("HEAD");
        }
        let added = self.parts.into_iter().zip(now.parts);
        BARE_PARTS
            .into_iter()
            .zip(added)
            .find_map(|(name, (before, after))| (after && !before).then_some(name))
    }
}

/// Opens a directory below the root, following no symlink.
pub(super) fn open(jail: &Jail, directory: impl AsRef<OsStr>) -> Result<OwnedFd, Errno> {
    let directory = directory.as_ref().as_bytes();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    match jail.open_bytes(directory, flags, Lookup::Full) {
        // `O_DIRECTORY` makes the kernel return this for a final symlink as well.
        Err(Errno::NOTDIR) => {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            let held = jail.open_bytes(directory, flags, Lookup::Full)?;
            let stat = rustix::fs::fstat(held)?;
            Err(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => Errno::LOOP,
                _ => Errno::NOTDIR,
            })
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_can_commit_without_a_look() {
        for name in [
            "index",
            "index.lock",
            "HEAD.lock",
            "COMMIT_EDITMSG",
            "ORIG_HEAD",
            "logs",
            "FETCH_HEAD",
        ] {
            assert!(!is_suspect(name.as_bytes()), "{name}");
        }
        for name in [
            "config",
            "Config.Worktree",
            ".envrc",
            ".config",
            "git",
            "hooks",
            "HEAD",
        ] {
            assert!(is_suspect(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn every_parent_of_a_name_is_watched() {
        let found: Vec<&str> = directories().collect();
        assert_eq!(found, [".", ".config", ".docker", ".git", ".gradle"]);
    }

    fn bare(head: bool, parts: [bool; 3]) -> BareGitParts {
        BareGitParts { head, parts }
    }

    #[test]
    fn a_root_that_becomes_a_git_directory_loses_what_was_added() {
        let nothing = bare(false, [false; 3]);
        let parts = bare(false, [false, true, true]);
        let head = bare(true, [false; 3]);
        let whole = bare(true, [false, true, true]);
        let linked = bare(true, [true, false, false]);
        assert_eq!(nothing.completed_by(whole), Some("HEAD"));
        assert_eq!(parts.completed_by(whole), Some("HEAD"));
        assert_eq!(head.completed_by(whole), Some("objects"));
        assert_eq!(head.completed_by(linked), Some("commondir"));
        assert_eq!(whole.completed_by(whole), None);
        assert_eq!(nothing.completed_by(parts), None);
        assert_eq!(nothing.completed_by(head), None);
    }
}
