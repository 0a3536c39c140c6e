//! Git's linked work trees in a workspace: `git worktree add` makes a directory below
//! `.git/worktrees`, and a `.git` file in the tree that leads to it.
//!
//! A tree that lies in the workspace is not held by mounts, because `git worktree remove` could not
//! remove it then. Instead it is checked that git still finds its settings in the workspace's own
//! `.git`: whatever else these files lead to would decide which programs git runs. Paths are bytes
//! throughout, as they are to git, and only the spellings that git itself writes are accepted: any
//! other would have to be resolved the way git does it, through links that a command can change.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, OFlags, statat},
    io::Errno,
};

use crate::jail::{Jail, Lookup};

/// The most linked trees that are read. No command starts in a workspace that has more, and what
/// commands add beyond that is moved away unread.
pub(crate) const MAX_TREES: usize = 1024;

/// The most bytes read of a file that leads somewhere. What is longer leads away.
const MAX_LINK_BYTES: u64 = 8192;

/// Git's directories for linked trees, below the root of the workspace.
pub(crate) const WORKTREES: &str = ".git/worktrees";

/// Where the settings are, as git writes it into the `commondir` of every linked tree.
const COMMON: &[u8] = b"../..";

/// Entries that decide what git runs. Git makes none of them for a linked tree. `objects` is among
/// them because with it a directory without `commondir` is a repository of its own.
const DECIDING: [&str; 6] = [
    "branches",
    "config",
    "config.worktree",
    "hooks",
    "objects",
    "remotes",
];

/// Why a suspect is moved away, as the end of a sentence that names it.
pub(crate) const REASON: &str = "git would take settings and hooks for a linked work tree from it";

/// The linked work trees of a workspace.
#[derive(Debug)]
pub(crate) struct LinkedTrees {
    /// Those that were read, at most [`MAX_TREES`].
    pub(crate) trees: Vec<LinkedTree>,
    /// Git's directories for the others, below the root.
    pub(crate) unread: Vec<PathBuf>,
}

/// A linked work tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkedTree {
    /// Git's directory for it, below the root of the workspace.
    pub(crate) directory: PathBuf,
    /// The `.git` file of the tree, below the root, if the tree lies in the workspace.
    pub(crate) link: Option<PathBuf>,
    /// Paths below the root that lead git away from the workspace's own `.git`.
    pub(crate) suspects: Vec<PathBuf>,
}

impl LinkedTrees {
    /// Finds the linked trees of a workspace, following no symlink.
    pub(crate) fn look(jail: &Jail) -> Self {
        Self::look_known_first(jail, &BTreeSet::new())
    }

    /// Like [`Self::look`], but reads the trees with these directories before any other. Otherwise
    /// a command could keep one from being read by adding many.
    pub(crate) fn look_known_first(jail: &Jail, known: &BTreeSet<PathBuf>) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let listing = jail.open_bytes(WORKTREES.as_bytes(), flags, Lookup::Full);
        let Some(entries) = listing.ok().and_then(|held| Dir::read_from(&held).ok()) else {
            let tree = LinkedTree::without_directory(jail, PathBuf::from(WORKTREES));
            let led_away = !tree.suspects.is_empty();
            return Self {
                trees: led_away.then_some(tree).into_iter().collect(),
                unread: Vec::new(),
            };
        };
        let found = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_bytes();
            let is_tree = !matches!(name, b"." | b"..");
            is_tree.then(|| Path::new(WORKTREES).join(OsStr::from_bytes(name)))
        });
        let (mut directories, new): (Vec<PathBuf>, Vec<PathBuf>) =
            found.partition(|directory| known.contains(directory));
        directories.extend(new);
        let unread = directories.split_off(directories.len().min(MAX_TREES));
        let trees = directories.into_iter();
        Self {
            trees: trees.map(|tree| LinkedTree::read(jail, tree)).collect(),
            unread,
        }
    }

    /// The `.git` files of the trees that lie in the workspace.
    pub(crate) fn links(&self) -> impl Iterator<Item = &PathBuf> {
        self.trees.iter().filter_map(|tree| tree.link.as_ref())
    }

    /// Paths below the root that lead git away from the workspace's own `.git`, and then those that
    /// may because they were not read.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = &PathBuf> {
        let found = self.trees.iter().flat_map(|tree| &tree.suspects);
        found.chain(&self.unread)
    }
}

impl LinkedTree {
    /// Whether it lies in the workspace and git finds its settings only in the workspace's `.git`.
    pub(crate) fn is_plain(&self) -> bool {
        self.link.is_some() && self.suspects.is_empty()
    }

    /// One whose directory has gone, or is a symlink or something else that is no directory.
    fn without_directory(jail: &Jail, directory: PathBuf) -> Self {
        let led_away = exists(jail, &directory);
        Self {
            suspects: led_away.then(|| directory.clone()).into_iter().collect(),
            directory,
            link: None,
        }
    }

    fn read(jail: &Jail, directory: PathBuf) -> Self {
        let Some(mut suspects) = suspects_in(jail, &directory) else {
            return Self::without_directory(jail, directory);
        };
        let root = Path::new(jail.shown());
        let leads_to = jail.read_bytes(&directory.join("gitdir"), MAX_LINK_BYTES);
        let link = leads_to.and_then(|text| tree_link(root, &directory, &text));
        // What it usually leads to is this very directory, whose suspects are found already.
        let is_checked = |named: &Path| named == directory || is_sound(jail, named);
        let misleading = link
            .clone()
            .filter(|link| leads_elsewhere(jail, link, is_checked));
        suspects.extend(misleading);
        Self {
            directory,
            link,
            suspects,
        }
    }
}

/// Whether the `.git` file of a tree leads git out of the workspace's own `.git`.
pub(crate) fn is_misleading(jail: &Jail, link: &Path) -> bool {
    leads_elsewhere(jail, link, |named| is_sound(jail, named))
}

/// Whether something is a directory, and no symlink to one.
pub(crate) fn is_directory(jail: &Jail, path: &Path) -> bool {
    open_directory(jail, path).is_ok()
}

/// What a suspect says, if it is a file that leads git somewhere. Nobody changes such a file once
/// git has written it, as people do with settings.
pub(crate) fn leading_text(jail: &Jail, suspect: &Path) -> Option<Vec<u8>> {
    let name = suspect.file_name()?;
    let leads = name == ".git" || name == "commondir";
    leads
        .then(|| jail.read_bytes(suspect, MAX_LINK_BYTES))
        .flatten()
}

/// What in git's directory for a linked tree leads git away; `None` if it is no directory.
fn suspects_in(jail: &Jail, directory: &Path) -> Option<Vec<PathBuf>> {
    let held = open_directory(jail, directory).ok()?;
    let mut suspects: Vec<PathBuf> = DECIDING
        .into_iter()
        .filter(|name| statat(&held, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
        .map(|name| directory.join(name))
        .collect();
    let common = directory.join("commondir");
    if leads_away(jail, &common, |text| text == COMMON) {
        suspects.push(common);
    }
    Some(suspects)
}

/// Whether git finds its settings in the workspace's own `.git` by way of this directory.
fn is_sound(jail: &Jail, directory: &Path) -> bool {
    suspects_in(jail, directory).is_some_and(|suspects| suspects.is_empty())
}

/// Whether the `.git` file of a tree leads git to anything but a directory of git's for a linked
/// tree of this very workspace that is fine.
fn leads_elsewhere(jail: &Jail, link: &Path, is_fine: impl Fn(&Path) -> bool) -> bool {
    let root = Path::new(jail.shown());
    leads_away(jail, link, |text| {
        named_directory(root, link, text).is_some_and(|named| is_fine(&named))
    })
}

/// Whether a file leads git somewhere else. An empty one leads nowhere, and git is about to write
/// it; a directory is no link.
fn leads_away(jail: &Jail, path: &Path, is_fine: impl Fn(&[u8]) -> bool) -> bool {
    if is_directory(jail, path) {
        return false;
    }
    match jail.read_bytes(path, MAX_LINK_BYTES) {
        Some(text) => {
            let too_long = u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_LINK_BYTES;
            let text = without_newlines(&text);
            too_long || (!text.is_empty() && !is_fine(text))
        }
        // Something that cannot be read as a file, such as a symlink.
        None => exists(jail, path),
    }
}

/// The `.git` of the tree that a `gitdir` names, below the root.
fn tree_link(root: &Path, directory: &Path, text: &[u8]) -> Option<PathBuf> {
    let target = OsStr::from_bytes(without_newlines(text));
    let path = lexically(&root.join(directory).join(target));
    let below = path.strip_prefix(root).ok()?;
    let is_link = below.file_name()? == ".git" && below.components().count() > 1;
    is_link.then(|| below.to_owned())
}

/// Git's directory for a linked tree of this very workspace that the text of a `.git` file names,
/// below the root, if it names it as git does: by its absolute path, or up from the tree to the
/// root and down again.
fn named_directory(root: &Path, link: &Path, text: &[u8]) -> Option<PathBuf> {
    let target = text.strip_prefix(b"gitdir: ")?;
    let root = root.as_os_str().as_bytes();
    let absolute = [root.strip_suffix(b"/").unwrap_or(root), b"/"].concat();
    let depth = link.parent().map_or(0, |tree| tree.components().count());
    let upwards = "../".repeat(depth);
    let below = target
        .strip_prefix(absolute.as_slice())
        .or_else(|| target.strip_prefix(upwards.as_bytes()))?;
    let name = below
        .strip_prefix(WORKTREES.as_bytes())?
        .strip_prefix(b"/")?;
    is_tree_name(name).then(|| Path::new(WORKTREES).join(OsStr::from_bytes(name)))
}

/// Whether git may have given a linked tree this name, so that nothing else can be meant by it.
fn is_tree_name(name: &[u8]) -> bool {
    // Git drops a carriage return at the end, and everything from a NUL on.
    let is_odd = |byte: &u8| *byte == b'/' || byte.is_ascii_control();
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(is_odd)
}

/// The text of a file that leads somewhere, without the newlines at its end, which git ignores.
fn without_newlines(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n'] = text {
        text = rest;
    }
    text
}

fn exists(jail: &Jail, path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    jail.open_bytes(path.as_os_str().as_bytes(), flags, Lookup::Full)
        .is_ok()
}

fn open_directory(jail: &Jail, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY;
    jail.open_bytes(path.as_os_str().as_bytes(), flags, Lookup::Full)
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
    use std::{fs, os::unix::fs::symlink};

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
            repository.add("fix", "trees/fix");
            repository
        }

        /// Adds a linked tree as git does.
        fn add(&self, name: &str, tree: &str) {
            let root = self.jail.shown();
            let directory = format!(".git/worktrees/{name}");
            self.put(
                &format!("{directory}/gitdir"),
                &format!("{root}/{tree}/.git\n"),
            );
            self.put(&format!("{directory}/commondir"), "../..\n");
            self.put(
                &format!("{tree}/.git"),
                &format!("gitdir: {root}/{directory}\n"),
            );
        }

        fn put(&self, path: &str, text: &str) {
            self.put_bytes(path.as_bytes(), text.as_bytes());
        }

        fn put_bytes(&self, path: &[u8], text: &[u8]) {
            let path = self.base.path().join(OsStr::from_bytes(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn suspects(&self) -> Vec<PathBuf> {
            LinkedTrees::look(&self.jail).suspects().cloned().collect()
        }

        fn only_tree(&self) -> LinkedTree {
            let found = LinkedTrees::look(&self.jail);
            assert_eq!(found.unread, [] as [PathBuf; 0]);
            let [tree] = found.trees.try_into().unwrap();
            tree
        }
    }

    fn paths(expect: &[&str]) -> Vec<PathBuf> {
        expect.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn what_git_makes_is_plain() {
        let repository = Repository::new();
        let tree = repository.only_tree();
        assert_eq!(tree.link.as_deref(), Some(Path::new("trees/fix/.git")));
        assert!(tree.is_plain());
        repository.put("trees/fix/.git", "gitdir: ../../.git/worktrees/fix\n");
        repository.put(".git/worktrees/fix/gitdir", "../../../trees/fix/.git\n");
        let tree = repository.only_tree();
        assert!(tree.is_plain(), "{tree:?}");
        repository.put(".git/worktrees/fix/commondir", "");
        assert_eq!(repository.suspects(), paths(&[]));
    }

    #[test]
    fn trees_at_any_depth_and_locked_ones_are_plain() {
        let repository = Repository::new();
        for (name, tree) in [("top", "top"), ("deep", "a/b/c/d"), ("in", "trees/fix/in")] {
            repository.add(name, tree);
            repository.put(&format!(".git/worktrees/{name}/locked"), "away\n");
        }
        let check = || {
            let found = LinkedTrees::look(&repository.jail);
            assert_eq!(found.trees.len(), 4);
            assert!(found.trees.iter().all(LinkedTree::is_plain), "{found:?}");
        };
        check();
        for (link, text) in [
            ("top/.git", "gitdir: ../.git/worktrees/top\n"),
            ("a/b/c/d/.git", "gitdir: ../../../../.git/worktrees/deep\n"),
            ("trees/fix/in/.git", "gitdir: ../../../.git/worktrees/in\n"),
        ] {
            repository.put(link, text);
        }
        check();
    }

    #[test]
    fn whatever_leads_git_away_is_a_suspect() {
        let long = format!("../..{}", "\n".repeat(9000));
        for (path, text) in [
            (".git/worktrees/fix/commondir", "../../../evil\n"),
            (".git/worktrees/fix/commondir", "../..\r\n"),
            (".git/worktrees/fix/commondir", long.as_str()),
            (".git/worktrees/fix/config", "[core]\n"),
            (".git/worktrees/fix/config.worktree", "[core]\n"),
            (".git/worktrees/fix/hooks/post-commit", "#!/bin/sh\n"),
            (".git/worktrees/fix/objects/x", "x"),
            ("trees/fix/.git", "gitdir: ../../evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/worktrees/fix/evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/modules/evil\n"),
            ("trees/fix/.git", "gitdir: ../../.git/modules/../evil\n"),
            ("trees/fix/.git", "evil\n"),
        ] {
            let repository = Repository::new();
            repository.put(path, text);
            let found = repository.suspects();
            assert_eq!(found.len(), 1, "{path}: {text}");
            assert!(Path::new(path).starts_with(&found[0]), "{path}: {found:?}");
        }
        let repository = Repository::new();
        let link = repository.base.path().join("trees/fix/.git");
        fs::remove_file(&link).unwrap();
        symlink("../../evil", link).unwrap();
        assert_eq!(repository.suspects(), paths(&["trees/fix/.git"]));
        for directory in [".git/worktrees/fix", ".git/worktrees"] {
            let path = repository.base.path().join(directory);
            fs::remove_dir_all(&path).unwrap();
            symlink("../../evil", &path).unwrap();
            assert_eq!(repository.suspects(), paths(&[directory]));
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
    }

    /// Git follows links on the way and removes `..` afterwards, so that the text of a path does not
    /// say where it leads.
    #[test]
    fn only_what_git_writes_leads_to_a_tree() {
        let repository = Repository::new();
        repository.put("node_modules/.git/worktrees/fix/commondir", "../..\n");
        repository.put("node_modules/x/file", "x");
        symlink("node_modules/x", repository.base.path().join("lnk")).unwrap();
        let root = repository.jail.shown().to_owned();
        for target in [
            "../../lnk/../.git/worktrees/fix".to_owned(),
            "../../trees/../.git/worktrees/fix".to_owned(),
            "../../.git/worktrees/../worktrees/fix".to_owned(),
            "../../.git/worktrees/.".to_owned(),
            "../../.git/worktrees/..".to_owned(),
            "../../.git/worktrees/".to_owned(),
            "../../.git/worktrees/fix/".to_owned(),
            "../../.git/worktrees/fix\r".to_owned(),
            "../../.git/worktrees/fix\0x".to_owned(),
            "../../.git/worktrees/gone".to_owned(),
            "../.git/worktrees/fix".to_owned(),
            "./../../.git/worktrees/fix".to_owned(),
            "../../../../../../../../../..".to_owned() + &root + "/.git/worktrees/fix",
            format!("{root}/lnk/../.git/worktrees/fix"),
            format!("{root}/../.git/worktrees/fix"),
            format!("{root}//.git/worktrees/fix"),
            format!("{root}/.git/worktrees/gone"),
            format!("{root}x/.git/worktrees/fix"),
        ] {
            repository.put("trees/fix/.git", &format!("gitdir: {target}\n"));
            assert_eq!(
                repository.suspects(),
                paths(&["trees/fix/.git"]),
                "{target:?}"
            );
            let link = Path::new("trees/fix/.git");
            assert!(is_misleading(&repository.jail, link), "{target:?}");
        }
    }

    #[test]
    fn names_that_are_no_text_are_read_like_others() {
        let repository = Repository::new();
        let link = Path::new("trees/fix/.git");
        repository.put_bytes(b"trees/fix/.git", b"gitdir: ../../.git/worktrees/\xff\n");
        assert_eq!(repository.suspects(), [link]);

        repository.put_bytes(b".git/worktrees/\xff/commondir", b"../..\n");
        assert_eq!(repository.suspects(), paths(&[]));
        repository.put_bytes(b".git/worktrees/\xff/commondir", b"../../../evil\n");
        let common = OsStr::from_bytes(b".git/worktrees/\xff/commondir");
        let mut found = repository.suspects();
        found.sort();
        assert_eq!(found, [Path::new(common), link]);

        // The tree itself may have such a name too.
        let repository = Repository::new();
        let gitdir = b"../../../trees/\xff/.git\n";
        repository.put_bytes(b".git/worktrees/fix/gitdir", gitdir);
        repository.put_bytes(b"trees/\xff/.git", b"gitdir: ../../.git/worktrees/fix\n");
        assert!(repository.only_tree().is_plain());
        repository.put_bytes(b"trees/\xff/.git", b"gitdir: ../../evil\n");
        let link = OsStr::from_bytes(b"trees/\xff/.git");
        assert_eq!(repository.suspects(), [Path::new(link)]);
    }

    #[test]
    fn no_number_of_trees_keeps_one_that_is_known_from_being_read() {
        let repository = Repository::new();
        repository.put(".git/worktrees/fix/commondir", "../../../evil\n");
        for number in 0..MAX_TREES + 9 {
            let path = format!(".git/worktrees/more-{number}");
            fs::create_dir(repository.base.path().join(path)).unwrap();
        }
        let known = BTreeSet::from([PathBuf::from(".git/worktrees/fix")]);
        let found = LinkedTrees::look_known_first(&repository.jail, &known);
        assert_eq!(found.trees.len(), MAX_TREES);
        assert_eq!(found.unread.len(), 10);
        let suspects: Vec<&PathBuf> = found.suspects().collect();
        assert_eq!(suspects.len(), 11);
        assert_eq!(suspects[0], Path::new(".git/worktrees/fix/commondir"));
    }

    #[test]
    fn a_tree_elsewhere_stays_held_and_a_repository_below_is_no_link() {
        let repository = Repository::new();
        repository.put(".git/worktrees/fix/gitdir", "/elsewhere/.git\n");
        assert!(!repository.only_tree().is_plain());
        repository.put("sub/.git/config", "[core]\n");
        let root = repository.jail.shown().to_owned();
        repository.put(".git/worktrees/fix/gitdir", &format!("{root}/sub/.git\n"));
        assert_eq!(repository.suspects(), paths(&[]));
    }
}
