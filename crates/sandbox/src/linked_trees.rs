//! Git's linked work trees in a workspace: `git worktree add` makes a directory below
//! `.git/worktrees`, and a `.git` file in the tree that leads to it.
//!
//! A tree that lies in the workspace is not held by mounts, because `git worktree remove` could not
//! remove it then. Instead it is checked that git still finds its settings in the workspace's own
//! `.git`: whatever else these files lead to would decide which programs git runs.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, OFlags};

use crate::jail::{Jail, Lookup};

/// The most linked trees that are looked at; further ones stay held by mounts.
const MAX_TREES: usize = 256;

/// The most bytes read of a file that leads somewhere.
const MAX_LINK_BYTES: u64 = 8192;

const WORKTREES: &str = ".git/worktrees";

/// Where the settings are, as git writes it into the `commondir` of every linked tree.
const COMMON: &str = "../..";

/// Entries that decide what git runs. Git makes none of them for a linked tree.
const DECIDING: [&str; 5] = ["branches", "config", "config.worktree", "hooks", "remotes"];

/// Why a suspect is moved away, as the end of a sentence that names it.
pub(crate) const REASON: &str = "git would take settings and hooks for a linked work tree from it";

/// A linked work tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkedTree {
    /// Git's directory for it, below the root of the workspace.
    pub(crate) directory: String,
    /// The `.git` file of the tree, below the root, if the tree lies in the workspace.
    pub(crate) link: Option<String>,
    /// Paths below the root that lead git away from the workspace's own `.git`.
    pub(crate) suspects: Vec<String>,
}

impl LinkedTree {
    /// Finds the linked trees of a workspace, following no symlink.
    pub(crate) fn look(jail: &Jail) -> Vec<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let listing = jail.open_bytes(WORKTREES.as_bytes(), flags, Lookup::Full);
        let Some(entries) = listing.ok().and_then(|held| Dir::read_from(&held).ok()) else {
            let led_away = exists(jail, WORKTREES).then(|| Self::elsewhere(WORKTREES.to_owned()));
            return led_away.into_iter().collect();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| !matches!(name.as_str(), "." | ".."))
            .take(MAX_TREES)
            .map(|name| Self::read(jail, format!("{WORKTREES}/{name}")))
            .collect()
    }

    /// Whether it lies in the workspace and git finds its settings only in the workspace's `.git`.
    pub(crate) fn is_plain(&self) -> bool {
        self.link.is_some() && self.suspects.is_empty()
    }

    /// One whose directory is a symlink or something else that is no directory.
    fn elsewhere(directory: String) -> Self {
        Self {
            suspects: vec![directory.clone()],
            directory,
            link: None,
        }
    }

    fn read(jail: &Jail, directory: String) -> Self {
        if !is_directory(jail, &directory) && exists(jail, &directory) {
            return Self::elsewhere(directory);
        }
        let root = Path::new(jail.shown());
        let leads_to = jail.read_text(&format!("{directory}/gitdir"), MAX_LINK_BYTES);
        let link = leads_to.and_then(|text| tree_link(root, &directory, &text));
        let parts = DECIDING.map(|name| format!("{directory}/{name}"));
        let mut suspects: Vec<String> = parts
            .into_iter()
            .filter(|path| exists(jail, path))
            .collect();
        let common = format!("{directory}/commondir");
        if leads_away(jail, &common, |text| text == COMMON) {
            suspects.push(common);
        }
        suspects.extend(link.clone().filter(|link| is_misleading(jail, link)));
        Self {
            directory,
            link,
            suspects,
        }
    }
}

/// Whether the `.git` file of a tree leads git out of the workspace's own `.git`.
pub(crate) fn is_misleading(jail: &Jail, link: &str) -> bool {
    let root = Path::new(jail.shown());
    leads_away(jail, link, |text| is_own_link(root, link, text))
}

/// Whether a file leads git somewhere else. An empty one leads nowhere, and git is about to write
/// it; a directory is no link.
fn leads_away(jail: &Jail, path: &str, is_fine: impl Fn(&str) -> bool) -> bool {
    if is_directory(jail, path) {
        return false;
    }
    match jail.read_text(path, MAX_LINK_BYTES) {
        Some(text) => {
            let text = text.trim_end_matches('\n');
            !text.is_empty() && !is_fine(text)
        }
        // Something that cannot be read as a file, such as a symlink.
        None => exists(jail, path),
    }
}

/// The `.git` of the tree that a `gitdir` names, below the root.
fn tree_link(root: &Path, directory: &str, text: &str) -> Option<String> {
    let path = lexically(&root.join(directory).join(text.trim_end_matches('\n')));
    let below = path.strip_prefix(root).ok()?;
    let is_link = below.file_name()? == ".git" && below.components().count() > 1;
    is_link.then(|| below.to_str().map(str::to_owned)).flatten()
}

/// Whether the text of a tree's `.git` file leads to a linked tree or a submodule of this very
/// workspace.
fn is_own_link(root: &Path, link: &str, text: &str) -> bool {
    let Some(target) = text.strip_prefix("gitdir: ") else {
        return false;
    };
    let tree = Path::new(link).parent().unwrap_or(Path::new(""));
    let path = lexically(&root.join(tree).join(target));
    let below = |parent: &str| path.strip_prefix(root.join(parent)).ok();
    let linked = below(WORKTREES).is_some_and(|name| name.components().count() == 1);
    linked || below(".git/modules").is_some_and(|name| name.components().count() > 0)
}

fn exists(jail: &Jail, path: &str) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    jail.open_bytes(path.as_bytes(), flags, Lookup::Full)
        .is_ok()
}

fn is_directory(jail: &Jail, path: &str) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    jail.open_bytes(path.as_bytes(), flags, Lookup::Full)
        .is_ok()
}

/// The path without `.` and `..`, resolved from its text alone.
pub(crate) fn lexically(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                clean.push(component);
            }
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::jail::Mounts;

    struct Repository {
        base: tempfile::TempDir,
        jail: Jail,
    }

    impl Repository {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            let jail = Jail::open(base.path(), Mounts::Refuse).unwrap();
            let repository = Self { base, jail };
            let root = repository.jail.shown().to_owned();
            repository.put(
                ".git/worktrees/fix/gitdir",
                &format!("{root}/trees/fix/.git\n"),
            );
            repository.put(".git/worktrees/fix/commondir", "../..\n");
            let link = format!("gitdir: {root}/.git/worktrees/fix\n");
            repository.put("trees/fix/.git", &link);
            repository
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.base.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn suspects(&self) -> Vec<String> {
            let trees = LinkedTree::look(&self.jail).into_iter();
            trees.flat_map(|tree| tree.suspects).collect()
        }
    }

    #[test]
    fn what_git_makes_is_plain() {
        let repository = Repository::new();
        let [tree] = LinkedTree::look(&repository.jail).try_into().unwrap();
        assert_eq!(tree.link.as_deref(), Some("trees/fix/.git"));
        assert!(tree.is_plain());
        repository.put("trees/fix/.git", "gitdir: ../../.git/worktrees/fix\n");
        repository.put(".git/worktrees/fix/gitdir", "../../../trees/fix/.git\n");
        let [tree] = LinkedTree::look(&repository.jail).try_into().unwrap();
        assert!(tree.is_plain(), "{tree:?}");
        repository.put(".git/worktrees/fix/commondir", "");
        assert_eq!(repository.suspects(), [""; 0]);
    }

    #[test]
    fn whatever_leads_git_away_is_a_suspect() {
        for (path, text) in [
            (".git/worktrees/fix/commondir", "../../../evil\n"),
            (".git/worktrees/fix/config", "[core]\n"),
            (".git/worktrees/fix/config.worktree", "[core]\n"),
            (".git/worktrees/fix/hooks/post-commit", "#!/bin/sh\n"),
            ("trees/fix/.git", "gitdir: ../../evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/worktrees/fix/evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/modules/../evil\n"),
            ("trees/fix/.git", "evil\n"),
        ] {
            let repository = Repository::new();
            repository.put(path, text);
            let found = repository.suspects();
            assert_eq!(found.len(), 1, "{path}: {text}");
            assert!(path.starts_with(&found[0]), "{path}: {found:?}");
        }
        let repository = Repository::new();
        let link = repository.base.path().join("trees/fix/.git");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("../../evil", link).unwrap();
        assert_eq!(repository.suspects(), ["trees/fix/.git"]);
        for directory in [".git/worktrees/fix", ".git/worktrees"] {
            let path = repository.base.path().join(directory);
            fs::remove_dir_all(&path).unwrap();
            std::os::unix::fs::symlink("../../evil", &path).unwrap();
            assert_eq!(repository.suspects(), [directory]);
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
    }

    #[test]
    fn a_tree_elsewhere_stays_held_and_a_repository_below_is_no_link() {
        let repository = Repository::new();
        repository.put(".git/worktrees/fix/gitdir", "/elsewhere/.git\n");
        let [tree] = LinkedTree::look(&repository.jail).try_into().unwrap();
        assert!(!tree.is_plain());
        repository.put("sub/.git/config", "[core]\n");
        let root = repository.jail.shown().to_owned();
        repository.put(".git/worktrees/fix/gitdir", &format!("{root}/sub/.git\n"));
        assert_eq!(repository.suspects(), [""; 0]);
    }
}
