//! Whether a call would create a protected name: something a shell, git, an editor, an agent or
//! Haft would run or obey later.
//!
//! Decided by the text of the path, which the caller can change after the check. So this gives an
//! honest program an early refusal with the name in it; what a dishonest one creates anyway is
//! removed after its end. Names that already exist are handled by the mounts.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use haft_contract::protected::{PROTECTED_NAMES, protected_name};
use rustix::io::Errno;

use crate::{
    filter::{Call, read_memory},
    jail::{Jail, Mounts},
    linked_trees::{LinkedTrees, lexically},
};

/// The longest path the kernel accepts.
const MAX_PATH: usize = 4096;

/// The size of the first read; most paths are shorter.
const FIRST_READ: usize = 256;

/// Directories into which package managers unpack other people's files. Nobody opens an editor or a
/// shell in there, and many packages include a `.vscode`.
const PACKAGE_DIRECTORIES: [&str; 8] = [
    "node_modules",
    "site-packages",
    "target",
    "vendor",
    ".venv",
    "venv",
    ".tox",
    ".nox",
];

/// The protected names of one workspace.
pub(super) struct ProtectedNames {
    root: PathBuf,
    /// Every component that occurs in a protected name, so that most paths need no further check.
    telling: HashSet<&'static [u8]>,
}

/// The result of checking a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameLookup {
    /// No protected name.
    Nothing,
    /// A protected name, below the root of the workspace.
    Protected(String),
    /// The path could not be read, so it cannot be cleared.
    Unreadable,
}

/// Where a call has the path it creates: the argument with the starting descriptor, and the one
/// with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallPath {
    directory: Option<usize>,
    text: usize,
}

/// How a call creates a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Creation {
    /// It opens a file, which is empty at first.
    File,
    /// It makes a directory or a link, or moves something here with whatever is in it.
    Other,
}

impl ProtectedNames {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            telling: PROTECTED_NAMES
                .iter()
                .flat_map(|name| name.components)
                .map(|component| component.as_bytes())
                .chain([
                    &b"hooks"[..],
                    b"config",
                    b"config.worktree",
                    b"commondir",
                    b"gitdir",
                    b"branches",
                    b"remotes",
                ])
                .collect(),
        }
    }

    /// Checks a call that creates a name.
    pub(super) fn look(&self, call: &Call) -> NameLookup {
        for place in places(call) {
            match self.look_at(call, *place) {
                NameLookup::Nothing => {}
                other => return other,
            }
        }
        NameLookup::Nothing
    }

    fn look_at(&self, call: &Call, place: CallPath) -> NameLookup {
        let address = call.arguments.get(place.text).copied().unwrap_or_default();
        let text = match read_text(call.pid, address) {
            Ok(text) => text,
            // The kernel will hit the same fault, or the caller has ended.
            Err(Errno::FAULT | Errno::SRCH) => return NameLookup::Nothing,
            Err(_) => return NameLookup::Unreadable,
        };
        // Every protected name is ASCII, so losing other bytes does not matter.
        let text = String::from_utf8_lossy(&text);
        // The starting directory may already be inside a protected place.
        let start = if text.starts_with('/') {
            PathBuf::new()
        } else {
            match starting_point(call, place) {
                Some(start) => start,
                None => return NameLookup::Nothing,
            }
        };
        if !self.tells(Path::new(&*text)) && !self.tells(&start) {
            return NameLookup::Nothing;
        }
        self.judge(&lexically(&start.join(&*text)), creation(call))
    }

    /// Whether a component of a path occurs in a protected name.
    fn tells(&self, path: &Path) -> bool {
        path.components()
            .any(|part| self.telling.contains(part.as_os_str().as_encoded_bytes()))
    }

    fn judge(&self, path: &Path, creation: Creation) -> NameLookup {
        let Ok(inside) = path.strip_prefix(&self.root) else {
            return NameLookup::Nothing;
        };
        // The directory it starts from may have other bytes too.
        let inside = inside.to_string_lossy();
        let inside: &str = &inside;
        let Some(name) = protected_name(inside) else {
            return NameLookup::Nothing;
        };
        let parts: Vec<&str> = inside.split('/').collect();
        if parts.iter().any(|part| PACKAGE_DIRECTORIES.contains(part)) {
            return NameLookup::Nothing;
        }
        // A linked tree has a file there; a directory would be a repository of its own.
        let is_link = || creation == Creation::File && self.is_linked_tree(inside);
        if name.components == [".git"] && (!git_matters(&parts, path) || is_link()) {
            return NameLookup::Nothing;
        }
        // Git checks it out where a repository has one. Nobody obeys it before a person has trusted
        // exactly this text.
        if let Some(tree) = inside.strip_suffix("/haft.toml")
            && self.is_linked_tree(&format!("{tree}/.git"))
        {
            return NameLookup::Nothing;
        }
        NameLookup::Protected(inside.to_owned())
    }

    /// Whether a path is the `.git` file of a work tree that git has just registered. What is then
    /// written to it is checked by the watch outside.
    fn is_linked_tree(&self, inside: &str) -> bool {
        inside.ends_with("/.git")
            // Bytes that are no text were lost, so it may be another path than git registered.
            && !inside.contains(char::REPLACEMENT_CHARACTER)
            && Jail::open(&self.root, Mounts::Cross).is_ok_and(|jail| {
                let trees = LinkedTrees::look(&jail);
                trees.links().any(|link| link == Path::new(inside))
            })
    }
}

/// The directory a relative path of a call starts from.
fn starting_point(call: &Call, place: CallPath) -> Option<PathBuf> {
    let directory = place
        .directory
        .and_then(|index| call.arguments.get(index))
        .map_or(libc::AT_FDCWD, |number| low_half(*number));
    let link = if directory == libc::AT_FDCWD {
        format!("/proc/{}/cwd", call.pid)
    } else {
        format!("/proc/{}/fd/{directory}", call.pid)
    };
    std::fs::read_link(link).ok()
}

/// The descriptor in a register, as the kernel reads it.
pub(super) fn low_half(register: u64) -> i32 {
    let [a, b, c, d, ..] = register.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Whether a name created in or as a git directory affects what git runs. Everything else in it is
/// how git works.
fn git_matters(parts: &[&str], path: &Path) -> bool {
    const DECIDES: [&str; 5] = ["config", "config.worktree", "hooks", "commondir", "gitdir"];
    let mut after = parts.iter().skip_while(|part| **part != ".git").skip(1);
    match after.next() {
        // The git directory itself; one that exists is not created. A file would redirect git
        // elsewhere.
        None => !path.symlink_metadata().is_ok_and(|found| found.is_dir()),
        Some(first) if DECIDES.contains(first) => true,
        // Remotes in git's old format; today they are refs and settings.
        Some(&("branches" | "remotes")) => true,
        Some(&"modules") => after.any(|part| DECIDES.contains(part)),
        // A new work tree has a `commondir` and a `gitdir`; those of others are mounted read-only.
        Some(&"worktrees") => {
            after.any(|part| DECIDES.contains(part) && !matches!(*part, "commondir" | "gitdir"))
        }
        Some(_) => false,
    }
}

/// Where a call has the paths of what it creates.
fn places(call: &Call) -> &'static [CallPath] {
    const fn at(directory: usize, text: usize) -> CallPath {
        CallPath {
            directory: Some(directory),
            text,
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        const fn plain(text: usize) -> CallPath {
            CallPath {
                directory: None,
                text,
            }
        }
        match i64::from(call.number) {
            libc::SYS_open | libc::SYS_creat | libc::SYS_mkdir | libc::SYS_mknod => {
                return &const { [plain(0)] };
            }
            libc::SYS_rename | libc::SYS_link | libc::SYS_symlink => {
                return &const { [plain(1)] };
            }
            _ => {}
        }
    }
    match i64::from(call.number) {
        libc::SYS_openat | libc::SYS_mkdirat | libc::SYS_mknodat => &const { [at(0, 1)] },
        // The old name too: a flag makes the call exchange the two.
        libc::SYS_renameat2 => &const { [at(2, 3), at(0, 1)] },
        libc::SYS_renameat | libc::SYS_linkat => &const { [at(2, 3)] },
        libc::SYS_symlinkat => &const { [at(1, 2)] },
        _ => &[],
    }
}

fn creation(call: &Call) -> Creation {
    #[cfg(target_arch = "x86_64")]
    {
        if matches!(i64::from(call.number), libc::SYS_open | libc::SYS_creat) {
            return Creation::File;
        }
    }
    if i64::from(call.number) == libc::SYS_openat {
        Creation::File
    } else {
        Creation::Other
    }
}

/// The text at an address, up to its NUL.
pub(super) fn read_text(pid: u32, address: u64) -> Result<Vec<u8>, Errno> {
    for size in [FIRST_READ, MAX_PATH] {
        let mut text = vec![0_u8; size];
        let got = read_memory(pid, address, &mut text)?;
        text.truncate(got);
        if let Some(end) = text.iter().position(|byte| *byte == 0) {
            text.truncate(end);
            return Ok(text);
        }
    }
    // The kernel refuses a path this long as well.
    Err(Errno::FAULT)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use super::*;

    fn check(path: &str, expect: Option<&str>) {
        let names = ProtectedNames::new(Path::new("/srv/app"));
        let found = names.judge(&lexically(Path::new(path)), Creation::File);
        let expect = expect.map_or(NameLookup::Nothing, |path| {
            NameLookup::Protected(path.to_owned())
        });
        assert_eq!(found, expect, "{path}");
    }

    #[test]
    fn protected_names_are_found_at_any_depth_of_the_workspace_alone() {
        check("/srv/app/.bashrc", Some(".bashrc"));
        check(
            "/srv/app/sub/.vscode/settings.json",
            Some("sub/.vscode/settings.json"),
        );
        check("/srv/app/.config/git/config", Some(".config/git/config"));
        check("/srv/app/x/../.mcp.json", Some(".mcp.json"));
        check("/tmp/.bashrc", None);
        check("/srv/application/.bashrc", None);
        check("/srv/app/.bashrc.md", None);
    }

    #[test]
    fn git_works_and_what_decides_what_it_runs_is_protected() {
        check("/srv/app/.git/index.lock", None);
        check("/srv/app/.git/refs/heads/hooks/config", None);
        check("/srv/app/.git/refs/remotes/origin/main", None);
        check("/srv/app/.git/modules/sub/refs/remotes/origin", None);
        check("/srv/app/.git/remotes/origin", Some(".git/remotes/origin"));
        check("/srv/app/.git/config.lock", None);
        check(
            "/srv/app/.git/hooks/pre-commit",
            Some(".git/hooks/pre-commit"),
        );
        check("/srv/app/.git/config", Some(".git/config"));
        check(
            "/srv/app/.git/modules/sub/config",
            Some(".git/modules/sub/config"),
        );
        check("/srv/app/.git", Some(".git"));
    }

    #[test]
    fn what_package_managers_unpack_is_nobodys_configuration() {
        check("/srv/app/node_modules/left/.vscode/settings.json", None);
        check("/srv/app/vendor/crate/.cargo/config.toml", None);
    }

    /// What git registered may become a file; what else is put there would be a repository, or lead
    /// to one, or is not what git registered.
    #[test]
    fn only_a_file_is_created_as_the_link_of_a_registered_tree() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().canonicalize().unwrap();
        let names = ProtectedNames::new(&root);
        let link = root.join("trees/fix/.git");
        let refused = NameLookup::Protected("trees/fix/.git".to_owned());
        assert_eq!(names.judge(&link, Creation::File), refused);

        let git = root.join(".git/worktrees/fix");
        std::fs::create_dir_all(&git).unwrap();
        std::fs::write(git.join("gitdir"), "../../../trees/fix/.git\n").unwrap();
        assert_eq!(names.judge(&link, Creation::File), NameLookup::Nothing);
        assert_eq!(names.judge(&link, Creation::Other), refused);

        let odd = "trees/\u{fffd}/.git";
        std::fs::write(git.join("gitdir"), format!("../../../{odd}\n")).unwrap();
        let refused = NameLookup::Protected(odd.to_owned());
        let other = OsStr::from_bytes(b"trees/\xff/.git");
        for path in [Path::new(odd), Path::new(other)] {
            assert_eq!(names.judge(&root.join(path), Creation::File), refused);
        }
    }

    #[test]
    fn every_protected_name_gets_a_second_look() {
        let names = ProtectedNames::new(Path::new("/w"));
        for name in PROTECTED_NAMES {
            for component in name.components {
                assert!(names.telling.contains(component.as_bytes()), "{name}");
            }
        }
    }
}
