//! What an unfinished git operation would run when somebody continues it. A command can start a
//! rebase and leave `exec` in its list, and the user's `git rebase --continue` then runs it,
//! outside. An unfinished rebase is normal; one that runs something is not.

use std::io::Read as _;

use rustix::fs::OFlags;

use crate::jail::{Jail, Lookup};

/// The lists of remaining steps, and the file that names a merge program.
const PLACES: [&str; 3] = [
    ".git/rebase-merge/git-rebase-todo",
    ".git/sequencer/todo",
    ".git/rebase-merge/strategy",
];

/// Git's built-in merge strategies. Any other is a program `git-merge-NAME`.
const STRATEGIES: [&str; 6] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree"];

/// The most bytes read of a list. A longer one is assumed to run something.
const MAX_BYTES: u64 = 1 << 20;

/// Why it is moved away, as the end of a sentence that names it.
pub(super) const REASON: &str = "git runs what it names when the operation continues";

/// Which of the places would run something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Todo([bool; PLACES.len()]);

impl Todo {
    /// Checks every place, following no link.
    pub(super) fn look(jail: &Jail) -> Self {
        Self(PLACES.map(|place| read(jail, place).is_some_and(|text| runs(place, &text))))
    }

    /// The places that run something now and did not before.
    pub(super) fn added(self, now: Self) -> impl Iterator<Item = &'static str> {
        let pairs = self.0.into_iter().zip(now.0);
        let places = PLACES.into_iter().zip(pairs);
        places.filter_map(|(place, (before, now))| (now && !before).then_some(place))
    }
}

/// The text of a regular file, at most one byte more than [`MAX_BYTES`]; `None` if there is none to
/// read.
fn read(jail: &Jail, place: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let held = jail
        .open_bytes(place.as_bytes(), flags, Lookup::Full)
        .ok()?;
    let mut bytes = Vec::new();
    let file = std::fs::File::from(held);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
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
