//! The state of the git repository at the workspace's root, and the one operation that puts it back.
//!
//! Tools never write `.git` as files: git runs programs that files there name. What can be put back
//! is only what says where the repository *is* (its refs, `HEAD`, the index, reflogs and the marks of
//! an unfinished merge), which makes git run nothing. Hooks, settings and objects are not part of it.

use super::{FileVersion, OpsError};
use crate::{future::BoxFuture, path::WorkPath};

/// What begins the version of a part. The rest says what the part holds.
const VERSION_MARK: &str = "git:";

/// Files of `.git` that mark an unfinished merge, cherry-pick or revert.
const MARKS: [&str; 4] = [
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "REVERT_HEAD",
];

/// Files of `.git` that only help a person along.
const NOTES: [&str; 4] = ["AUTO_MERGE", "MERGE_MSG", "ORIG_HEAD", "SQUASH_MSG"];

/// Refs that say what somebody else has, or belong to one run of a command.
const FOREIGN_REFS: [&str; 3] = ["bisect", "remotes", "worktree"];

/// Reads and puts back the state of the repository at the workspace's root.
pub trait RepositoryOps: Send + Sync {
    /// What a part holds now; `None` if it does not exist. A packed ref reads like a loose one.
    fn read<'a>(
        &'a self,
        part: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<RepositoryPart>, OpsError>>;

    /// What must end before the state can be put back, such as a rebase in progress.
    fn unfinished(&self) -> BoxFuture<'_, Result<Option<String>, OpsError>>;

    /// Which of these objects the repository does not have. Objects in another repository that it
    /// borrows from count as missing.
    fn missing_objects<'a>(
        &'a self,
        ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<String>, OpsError>>;

    /// Which of these files an index names: the one with these bytes, or else the present one. `None`
    /// if it cannot be read.
    fn indexed<'a>(
        &'a self,
        index: Option<&'a [u8]>,
        files: &'a [WorkPath],
    ) -> BoxFuture<'a, Result<Option<Vec<WorkPath>>, OpsError>>;

    /// Changes all parts or none, under git's own locks, if each still has its expected version.
    /// Returns the versions afterwards, in the same order.
    fn replace<'a>(
        &'a self,
        changes: &'a [PartChange],
    ) -> BoxFuture<'a, Result<Vec<Option<FileVersion>>, OpsError>>;
}

/// What a part of the state holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryPart {
    /// Says what it holds: the value of a ref, the entries of the index. Two indexes that differ only
    /// in what git remembers about files on disk have one version.
    pub version: FileVersion,
    /// Its bytes; of a packed ref, what a loose one would hold.
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// A change of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartChange {
    /// The part.
    pub path: WorkPath,
    /// The version it must have; `None` if it must not exist.
    pub expected: Option<FileVersion>,
    /// Its new bytes; `None` removes it.
    pub bytes: Option<Vec<u8>>,
    /// Its permission bits, if it is created.
    pub mode: Option<u32>,
}

/// What a path in `.git` is, as far as it can be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitPart {
    /// Where the work tree is: a branch, or a commit.
    Head,
    /// A branch, a tag, the stash or another ref of the user's own.
    Ref,
    /// What the next commit will contain.
    Index,
    /// The history of a ref.
    Log,
    /// The list of stashes, which git keeps as the history of a ref.
    StashLog,
    /// Marks an unfinished merge, cherry-pick or revert.
    Mark,
    /// Helps a person along, and decides nothing.
    Note,
}

impl GitPart {
    /// What this path is; `None` for everything else in `.git`, and outside it.
    pub fn of(path: &WorkPath) -> Option<Self> {
        let mut components = path.components();
        if components.next() != Some(".git") {
            return None;
        }
        let inside: Vec<&str> = components.collect();
        match inside.as_slice() {
            ["HEAD"] => Some(Self::Head),
            ["index"] => Some(Self::Index),
            ["logs", "HEAD"] => Some(Self::Log),
            ["logs", "refs", "stash"] => Some(Self::StashLog),
            ["logs", "refs", name @ ..] => is_own_ref(name).then_some(Self::Log),
            ["refs", name @ ..] => is_own_ref(name).then_some(Self::Ref),
            [name] if MARKS.contains(name) => Some(Self::Mark),
            [name] if NOTES.contains(name) => Some(Self::Note),
            _ => None,
        }
    }

    /// Whether putting the others back without it would leave the repository in a state that it never
    /// had.
    pub fn is_essential(self) -> bool {
        match self {
            Self::Head | Self::Ref | Self::Index | Self::StashLog | Self::Mark => true,
            Self::Log | Self::Note => false,
        }
    }

    /// The paths of marks and notes.
    pub fn single_files() -> impl Iterator<Item = String> {
        let names = MARKS.iter().chain(&NOTES);
        names.map(|name| format!(".git/{name}"))
    }
}

/// Whether these are the components of a ref below `refs` that undo may move. Git refuses names with
/// a leading dot or the ending of its locks.
fn is_own_ref(name: &[&str]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    let valid = |part: &&str| !part.starts_with('.') && part.strip_suffix(".lock").is_none();
    name.iter().all(valid) && !FOREIGN_REFS.contains(first) && (name.len() > 1 || *first == "stash")
}

/// The version of a part that holds this.
pub fn part_version(holds: &str) -> FileVersion {
    FileVersion::new(format!("{VERSION_MARK}{holds}"))
}

/// What a part of this version holds; `None` if it is the version of an ordinary file.
pub fn part_value(version: &FileVersion) -> Option<&str> {
    version.as_str().strip_prefix(VERSION_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_git_run_nothing_is_a_part() {
        let check = |path: &str, expected: Option<GitPart>| {
            let path = WorkPath::relative(path).unwrap();
            assert_eq!(GitPart::of(&path), expected, "{path}");
        };
        check(".git/HEAD", Some(GitPart::Head));
        check(".git/index", Some(GitPart::Index));
        check(".git/refs/heads/main", Some(GitPart::Ref));
        check(".git/refs/heads/hooks/config", Some(GitPart::Ref));
        check(".git/refs/stash", Some(GitPart::Ref));
        check(".git/logs/refs/stash", Some(GitPart::StashLog));
        check(".git/logs/HEAD", Some(GitPart::Log));
        check(".git/MERGE_HEAD", Some(GitPart::Mark));
        for path in [
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/attributes",
            ".git/objects/ab/cd",
            ".git/refs",
            ".git/refs/heads",
            ".git/refs/heads/x.lock",
            ".git/refs/heads/.x",
            ".git/refs/remotes/origin/main",
            ".git/logs/refs/remotes/origin/main",
            ".git/modules/a/HEAD",
            ".git/rebase-merge/git-rebase-todo",
            ".git/worktrees/a/HEAD",
            "sub/.git/HEAD",
            "HEAD",
        ] {
            check(path, None);
        }
    }
}
