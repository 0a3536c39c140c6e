//! Paths that are protected for a reason their spelling does not show: they lie in a git directory
//! that is not called `.git`, or in a directory that ignores case.
//!
//! Protected *names* are policy's job. This file only adds what takes a look at the disk.

use std::os::fd::{AsFd, OwnedFd};

use haft_contract::{WorkPath, ops::OpsError};
use rustix::{
    fs::{AtFlags, OFlags, statat},
    io::Errno,
};

use crate::{
    errno,
    jail::{Jail, Lookup},
};

/// Entries of a git directory that decide which code git runs.
const GIT_ENTRIES: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "gitdir"];

/// Names that policy protects, in lower case. Here only to recognise another spelling of one in a
/// directory that ignores case.
const PROTECTED_NAMES: [&str; 21] = [
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
    ".npmrc",
    ".ssh",
    ".haft",
    "haft.toml",
    "agents-policy",
];

/// `FS_CASEFOLD_FL`: names in this directory are compared without case.
const CASEFOLD: u32 = 0x4000_0000;

/// Whether a path has to be looked at on disk. Cheap and pure; most paths need not be.
pub(crate) fn needs_a_look(path: &WorkPath) -> bool {
    path.components()
        .any(|component| suspect(component).is_some())
}

/// Why a path without symlinks is protected, if it is.
pub(crate) fn reason(jail: &Jail, path: &WorkPath) -> Result<Option<String>, OpsError> {
    let mut directory = WorkPath::root();
    for component in path.components() {
        if let Some(suspect) = suspect(component)
            && let Some(held) = nearest_directory(jail, &directory)?
        {
            let same_name = suspect.name == component || ignores_case(&held.directory);
            match suspect.because {
                Because::GitEntry => {
                    if same_name && held.exact && looks_like_git(&held.directory) {
                        return Ok(Some(format!(
                            "`{directory}` is a git directory, and its `{}` decides which code \
                             git runs",
                            suspect.name
                        )));
                    }
                }
                Because::Name => {
                    if same_name && suspect.name != component {
                        return Ok(Some(format!(
                            "`{directory}` ignores case, so `{component}` is the protected `{}`",
                            suspect.name
                        )));
                    }
                }
            }
        }
        directory = directory.join(component).unwrap_or(directory);
    }
    Ok(None)
}

/// A component that may be protected.
struct Suspect {
    name: &'static str,
    because: Because,
}

enum Because {
    GitEntry,
    Name,
}

fn suspect(component: &str) -> Option<Suspect> {
    let folded = fold(component);
    let folded = folded.as_deref().unwrap_or(component);
    let find = |list: &'static [&'static str]| list.iter().copied().find(|name| *name == folded);
    if let Some(name) = find(&GIT_ENTRIES) {
        return Some(Suspect {
            name,
            because: Because::GitEntry,
        });
    }
    // The plain spelling is policy's job.
    find(&PROTECTED_NAMES)
        .filter(|name| *name != component)
        .map(|name| Suspect {
            name,
            because: Because::Name,
        })
}

/// The name as a case-folding directory compares it: lower case, without characters that are
/// ignored. `None` when that changes nothing.
fn fold(component: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if component.bytes().all(plain) {
        return None;
    }
    Some(
        component
            .chars()
            .filter(|c| !ignorable(*c))
            .flat_map(char::to_lowercase)
            // The one letter whose lower case is itself but which folds to an ASCII letter.
            .map(|c| if c == '\u{17f}' { 's' } else { c })
            .collect(),
    )
}

/// Characters that Unicode case folding skips.
fn ignorable(c: char) -> bool {
    matches!(
        u32::from(c),
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f
            | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f
            | 0xfeff | 0xffa0 | 0xfff0..=0xfff8 | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff
    )
}

/// A directory, or the nearest one above it that exists (new directories inherit case folding).
struct Held {
    directory: OwnedFd,
    exact: bool,
}

fn nearest_directory(jail: &Jail, path: &WorkPath) -> Result<Option<Held>, OpsError> {
    let mut at = path.clone();
    let mut exact = true;
    loop {
        match jail.open_at(&at, OFlags::RDONLY | OFlags::DIRECTORY, Lookup::Full) {
            Ok(directory) => return Ok(Some(Held { directory, exact })),
            Err(Errno::NOENT) => match at.parent() {
                Some(parent) => at = parent,
                None => return Ok(None),
            },
            Err(Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(errno::on_path(errno, path)),
        }
        exact = false;
    }
}

fn ignores_case(directory: &OwnedFd) -> bool {
    rustix::fs::ioctl_getflags(directory).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

/// A repository's own directory has `HEAD`, `objects` and `refs`; that of a linked work tree has
/// `HEAD` and `commondir`.
fn looks_like_git(directory: &OwnedFd) -> bool {
    let has = |name: &str| statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(component: &str, expect: Option<&str>) {
        assert_eq!(
            suspect(component).map(|suspect| suspect.name),
            expect,
            "{component:?}"
        );
    }

    /// PE-21 and its kin: every spelling that a case-folding directory takes for `.git`.
    #[test]
    fn pe_21_other_spellings_of_protected_names_are_suspects() {
        check(".Git", Some(".git"));
        check(".GIT", Some(".git"));
        check(".g\u{200c}it", Some(".git"));
        check(".\u{17f}\u{17f}h", Some(".ssh"));
        check(".BashRC", Some(".bashrc"));
        check("HOOKS", Some("hooks"));
    }

    #[test]
    fn ordinary_names_are_not() {
        check(".git", None);
        check(".gitignore", None);
        check("README.md", None);
        check("src", None);
    }
}
