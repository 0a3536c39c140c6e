//! Paths that are protected for a reason their spelling does not show: they belong to a git
//! directory that is not called `.git`, would complete one, or lie in a directory that ignores
//! case.
//!
//! Protected *names* are policy's job and are in [`haft_contract::protected`]. This file only adds
//! checks that read the disk.
//!
//! Git treats any directory as a repository that has a `HEAD` and either `objects` and `refs` or a
//! `commondir`, and then runs programs that its `config` and `hooks` name. So `HEAD` decides: it is
//! protected next to any other part of a git directory, and every other part is protected next to
//! it. Without a `HEAD`, `src/hooks`, `src/config`, `src/objects` and `src/refs` are ordinary
//! names, and whatever the order of writes, no last one completes a git directory.

use std::{
    borrow::Cow,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::OpsError,
    protected::{ProtectedName, protected_name, protected_name_where},
};
use haft_sandbox::{
    errno,
    jail::{Jail, Lookup},
};
use rustix::{
    fs::{AtFlags, FileType, OFlags, statat},
    io::Errno,
};

/// The file without which nothing is a git directory.
const HEAD: &str = "HEAD";

/// What makes a directory with a `HEAD` a git directory, or a dangerous one.
const PARTS: [&str; 6] = [
    "commondir",
    "config",
    "config.worktree",
    "hooks",
    "objects",
    "refs",
];

/// Other entries of a git directory that name programs, or lead git to a place that does.
const OTHER_ENTRIES: [&str; 7] = [
    "gitdir",
    "info",
    "modules",
    "rebase-apply",
    "rebase-merge",
    "sequencer",
    "worktrees",
];

/// `FS_CASEFOLD_FL`: names in this directory are compared without case.
const CASEFOLD: u32 = 0x4000_0000;

/// Locked while changing a path that needs a check on disk. Two writes that complete a git
/// directory only together must not both find the other's file absent.
static TURNS: Mutex<()> = Mutex::new(());

/// The right to change one path, until it is dropped.
#[must_use]
pub(crate) struct PathTurn {
    _guard: Option<MutexGuard<'static, ()>>,
}

/// Checks a path without symlinks again right before it is changed: files planned together, such as
/// those of one patch, were checked before any of them existed.
pub(crate) fn take_turn(jail: &Jail, path: &WorkPath) -> Result<PathTurn, OpsError> {
    if !needs_a_look(path) {
        return Ok(PathTurn { _guard: None });
    }
    let guard = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    match reason(jail, path)? {
        None => Ok(PathTurn {
            _guard: Some(guard),
        }),
        Some(why) => Err(OpsError::new(ErrorKind::Protected, why).on(path)),
    }
}

/// Whether a path has to be checked on disk. Cheap and pure; most paths do not.
pub(crate) fn needs_a_look(path: &WorkPath) -> bool {
    git_entries(path).next().is_some() || other_spelling(path).is_some()
}

/// Why a path without symlinks is protected, if it is.
pub(crate) fn reason(jail: &Jail, path: &WorkPath) -> Result<Option<String>, OpsError> {
    for entry in git_entries(path) {
        if let Some(held) = nearest_directory(jail, &entry.directory)?
            && held.exact
            && (entry.name == entry.written || ignores_case(&held.directory))
            && let Some(reason) = entry.reason(&held.directory)
        {
            return Ok(Some(reason));
        }
    }
    match other_spelling(path) {
        Some(_) => ignored_case(jail, path),
        None => Ok(None),
    }
}

/// A component with the name of an entry of a git directory.
struct GitEntry<'p> {
    directory: WorkPath,
    written: &'p str,
    name: &'static str,
}

impl GitEntry<'_> {
    /// Why it is protected in this directory, if it is.
    fn reason(&self, held: &OwnedFd) -> Option<String> {
        let (directory, name) = (&self.directory, self.name);
        if name != HEAD {
            return has_head(held).then(|| {
                format!(
                    "`{directory}` has a `HEAD` as a git directory has, and its `{name}` would \
                     decide which code git runs"
                )
            });
        }
        let part = PARTS.into_iter().find(|part| has(held, part))?;
        Some(format!(
            "`{directory}` has `{part}` as a git directory has, and with a `HEAD` git would take \
             it for one and run what it names"
        ))
    }
}

fn git_entries(path: &WorkPath) -> impl Iterator<Item = GitEntry<'_>> {
    let last = path.components().count().saturating_sub(1);
    path.components()
        .enumerate()
        .filter_map(move |(depth, written)| {
            let name = git_entry(written)?;
            // A directory called `HEAD` does not make a git directory.
            if name == HEAD && depth != last {
                return None;
            }
            let above: Vec<&str> = path.components().take(depth).collect();
            let directory = match above.as_slice() {
                [] => WorkPath::root(),
                above => WorkPath::relative(&above.join("/")).ok()?,
            };
            Some(GitEntry {
                directory,
                written,
                name,
            })
        })
}

/// The git directory entry that a component names, compared as a directory that ignores case does.
fn git_entry(component: &str) -> Option<&'static str> {
    let folded = fold(component);
    let folded = folded.as_deref().unwrap_or(component);
    std::iter::once(HEAD)
        .chain(PARTS)
        .chain(OTHER_ENTRIES)
        .find(|name| name.eq_ignore_ascii_case(folded))
}

/// The protected name that a path would contain if every directory ignored case. A path that
/// contains it anyway is policy's job.
fn other_spelling(path: &WorkPath) -> Option<&'static ProtectedName> {
    let components: Vec<Cow<'_, str>> = path
        .components()
        .map(|component| fold(component).map_or(Cow::Borrowed(component), Cow::Owned))
        .collect();
    let found = protected_name_where(&components, |component, name| {
        component.eq_ignore_ascii_case(name)
    })?;
    protected_name(path.as_str()).is_none().then_some(found)
}

/// Why a path is protected if it is another spelling of a protected name and some of its
/// directories ignore case.
fn ignored_case(jail: &Jail, path: &WorkPath) -> Result<Option<String>, OpsError> {
    let mut components = Vec::new();
    let mut directory = WorkPath::root();
    for written in path.components() {
        let held = nearest_directory(jail, &directory)?;
        let folded = held.is_some_and(|held| ignores_case(&held.directory));
        components.push(match fold(written).filter(|_| folded) {
            Some(text) => (text, folded),
            None => (written.to_owned(), folded),
        });
        directory = directory.join(written).unwrap_or(directory);
    }
    let found = protected_name_where(&components, |(text, folded), name| {
        text == name || (*folded && text.eq_ignore_ascii_case(name))
    });
    Ok(found.map(|name| {
        format!("a directory of `{path}` ignores case, so it is the protected `{name}`")
    }))
}

/// The name as a case-folding directory compares it: lower case, without ignored characters. `None`
/// if that changes nothing.
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

/// A directory, or its nearest ancestor that exists (new directories inherit case folding).
struct NearestDirectory {
    directory: OwnedFd,
    exact: bool,
}

fn nearest_directory(jail: &Jail, path: &WorkPath) -> Result<Option<NearestDirectory>, OpsError> {
    let mut at = path.clone();
    let mut exact = true;
    loop {
        match jail.open_at(&at, OFlags::RDONLY | OFlags::DIRECTORY, Lookup::Full) {
            Ok(directory) => return Ok(Some(NearestDirectory { directory, exact })),
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

fn has(directory: &OwnedFd, name: &str) -> bool {
    statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn has_head(directory: &OwnedFd) -> bool {
    statat(directory.as_fd(), HEAD, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expect: Option<&str>) {
        let path = WorkPath::relative(path).expect("a path");
        let found = other_spelling(&path).map(ToString::to_string);
        assert_eq!(found.as_deref(), expect, "{path}");
    }

    /// PE-21 and related cases: every spelling that a case-folding directory treats as `.git`.
    #[test]
    fn pe_21_other_spellings_of_protected_names_are_suspects() {
        check(".Git", Some(".git"));
        check(".GIT", Some(".git"));
        check("a/.g\u{200c}it/hooks/x", Some(".git"));
        check(".\u{17f}\u{17f}h", Some(".ssh"));
        check(".BashRC", Some(".bashrc"));
        check(".bash_Aliases", Some(".bash_aliases"));
        check(".Claude/settings.json", Some(".claude"));
        check(".Config/GIT/config", Some(".config/git"));
        check("agents-POLICY", Some("AGENTS-policy"));
        assert_eq!(git_entry("HOOKS"), Some("hooks"));
        assert_eq!(git_entry("head"), Some("HEAD"));
    }

    #[test]
    fn ordinary_names_are_not() {
        check(".git", None);
        check(".gitignore", None);
        check("README.md", None);
        check("src", None);
        assert_eq!(git_entry("header"), None);
    }

    /// Every protected name is recognised in another case, so that the two lists cannot drift
    /// apart.
    #[test]
    fn pe_21_every_protected_name_is_recognised_in_another_case() {
        for name in haft_contract::protected::PROTECTED_NAMES {
            let shouted = name.to_string().to_uppercase();
            check(&shouted, Some(&name.to_string()));
        }
    }
}
