//! What an unfinished git operation would run when somebody continues it. A command can start a
//! rebase and leave `exec` in its list, and the user's `git rebase --continue` then runs it,
//! outside. An unfinished rebase is normal; one that runs something is not.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{jail::Jail, linked_trees::LinkedTree};

/// The lists of remaining steps, and the file that names a merge program, below a git directory.
const PLACES: [&str; 3] = [
    "rebase-merge/git-rebase-todo",
    "sequencer/todo",
    "rebase-merge/strategy",
];

/// Git's built-in merge strategies. Any other is a program `git-merge-NAME`.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// The most bytes read of a list. A longer one is assumed to run something.
const MAX_BYTES: u64 = 1 << 20;

/// Why it is moved away, as the end of a sentence that names it.
pub(super) const REASON: &str = "git runs what it names when the operation continues";

/// The places that would run something, in the workspace's `.git` and those of its linked trees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Todo(BTreeSet<PathBuf>);

impl Todo {
    /// Checks every place, following no link.
    pub(super) fn look(jail: &Jail, trees: &[LinkedTree]) -> Self {
        let directories = trees.iter().map(|tree| tree.directory.as_path());
        let places = directories
            .chain([Path::new(".git")])
            .flat_map(|directory| PLACES.map(|place| (directory.join(place), place)));
        let would_run = |(path, place): &(PathBuf, &'static str)| {
            let list = jail.read_bytes(path, MAX_BYTES);
            // What makes git run something is ASCII, so losing other bytes does not matter.
            list.is_some_and(|list| runs(place, &String::from_utf8_lossy(&list)))
        };
        Self(places.filter(would_run).map(|(path, _)| path).collect())
    }

    /// The places that run something now and did not before.
    pub(super) fn added(&self, now: &Self) -> Vec<PathBuf> {
        now.0.difference(&self.0).cloned().collect()
    }
}

fn runs(place: &str, text: &str) -> bool {
    if place.ends_with("strategy") {
        return !STRATEGIES.contains(&text.trim());
    }
    let long = u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_BYTES;
    long || text.lines().any(|line| {
        let word = line.trim_start().split([' ', '\t']).next();
        matches!(word, Some("exec" | "x"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_runs_something_only_by_exec() {
        let todo = PLACES[0];
        for text in [
            "",
            "pick 1 a\nfixup 2 b\n",
            "# exec x\npick exec exec\n",
            "label x\nreset y\n",
        ] {
            assert!(!runs(todo, text), "{text}");
        }
        for text in ["exec id", "pick 1 a\nx make\n", "  exec\tid\n"] {
            assert!(runs(todo, text), "{text}");
        }
        assert!(runs(todo, &"pick 1 a\n".repeat(200_000)));
        assert!(!runs(PLACES[2], "ort\n"));
        assert!(runs(PLACES[2], "evil\n"));
    }
}
