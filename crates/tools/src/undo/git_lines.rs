//! Says in one line each what happened to a git repository: a branch that moved, a stash that came, a
//! merge that was left unfinished. Pure: what a part held is in its version.

use haft_contract::{
    WorkPath,
    ops::{FileVersion, GitPart, part_value},
};

use super::fold::{FileState, FoldedChanges};
use crate::text::display::one_line;

/// How much of an object id is shown.
const ID_CHARS: usize = 7;

/// What these changes did to the repository, in order of importance.
pub fn git_lines(folded: &FoldedChanges) -> Vec<String> {
    let parts = folded.files.iter();
    let mut lines: Vec<_> = parts
        .filter(|(_, change)| !change.before.is_same(&change.after))
        .filter_map(|(path, change)| {
            let part = GitPart::of(path)?;
            let line = line(path, version(&change.before), version(&change.after))?;
            Some((rank(part), line))
        })
        .collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// One line for a part that goes from one version to another; `None` for what nobody needs to know.
pub(super) fn line(
    path: &WorkPath,
    from: Option<&FileVersion>,
    to: Option<&FileVersion>,
) -> Option<String> {
    let part = GitPart::of(path)?;
    let (from, to) = (from.and_then(part_value), to.and_then(part_value));
    let name = path.as_str().strip_prefix(".git/")?;
    match part {
        GitPart::Head => moved("HEAD", from, to),
        // Shown by its list.
        GitPart::Ref if name == "refs/stash" => None,
        GitPart::Ref => moved(&ref_name(name), from, to),
        GitPart::StashLog => {
            let entries = |value: Option<&str>| count(value).unwrap_or(0);
            let (before, after) = (entries(from), entries(to));
            Some(if before == after {
                format!("stash: {before} other entries")
            } else {
                format!("stash: {before} → {after} entries")
            })
        }
        GitPart::Index => match (count(from).unwrap_or(0), count(to).unwrap_or(0)) {
            (before, after) if before == after => {
                Some("index: what is staged for the next commit".to_owned())
            }
            (before, after) => Some(format!("index: {before} → {after} files")),
        },
        GitPart::Mark => {
            let what = match name {
                "MERGE_HEAD" => "merge",
                "CHERRY_PICK_HEAD" => "cherry-pick",
                "REVERT_HEAD" => "revert",
                _ => return None,
            };
            let state = match to {
                Some(_) => "in progress",
                None => "no longer in progress",
            };
            Some(format!("{what}: {state}"))
        }
        GitPart::Log | GitPart::Note => None,
    }
}

/// The version of a part in a recorded state.
pub(super) fn version(state: &FileState) -> Option<&FileVersion> {
    match state {
        FileState::File { version, .. } => Some(version),
        FileState::Absent | FileState::Unknown => None,
    }
}

/// The name of a ref as people say it.
pub(super) fn ref_name(name: &str) -> String {
    let shown = [("refs/heads/", "branch "), ("refs/tags/", "tag ")]
        .into_iter()
        .find_map(|(prefix, word)| Some(format!("{word}{}", name.strip_prefix(prefix)?)));
    let shown = shown.unwrap_or_else(|| name.to_owned());
    one_line(&shown).into_owned()
}

/// The value of a ref as people read it: a branch, or the beginning of an id.
pub(super) fn shown(value: &str) -> String {
    match value.strip_prefix("ref:").map(str::trim) {
        Some(name) => one_line(name.strip_prefix("refs/heads/").unwrap_or(name)).into_owned(),
        None => value.chars().take(ID_CHARS).collect(),
    }
}

fn moved(name: &str, from: Option<&str>, to: Option<&str>) -> Option<String> {
    Some(match (from.map(shown), to.map(shown)) {
        (Some(from), Some(to)) => format!("{name}: {from} → {to}"),
        (None, Some(to)) => format!("{name}: new, at {to}"),
        (Some(from), None) => format!("{name}: removed, was at {from}"),
        (None, None) => return None,
    })
}

/// The number that begins the value of an index or a log.
fn count(value: Option<&str>) -> Option<u64> {
    value?.split(' ').next()?.parse().ok()
}

/// Where a part's line comes among the others.
pub(super) fn rank(part: GitPart) -> u8 {
    match part {
        GitPart::Head => 0,
        GitPart::Ref => 1,
        GitPart::StashLog => 2,
        GitPart::Mark => 3,
        GitPart::Index => 4,
        GitPart::Log | GitPart::Note => 5,
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::ops::part_version;

    use super::*;

    fn check(path: &str, from: Option<&str>, to: Option<&str>, expected: Option<&str>) {
        let path = WorkPath::relative(path).unwrap();
        let (from, to) = (from.map(part_version), to.map(part_version));
        let found = line(&path, from.as_ref(), to.as_ref());
        assert_eq!(found.as_deref(), expected, "{path}");
    }

    #[test]
    fn what_git_did_is_said_in_the_words_people_use() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let (one, two) = (Some(one.as_str()), Some(two.as_str()));
        let main = ".git/refs/heads/main";
        check(main, one, two, Some("branch main: 1111111 → 2222222"));
        check(main, None, two, Some("branch main: new, at 2222222"));
        check(
            main,
            one,
            None,
            Some("branch main: removed, was at 1111111"),
        );
        check(
            ".git/refs/tags/v1",
            None,
            two,
            Some("tag v1: new, at 2222222"),
        );
        check(
            ".git/refs/notes/x",
            None,
            two,
            Some("refs/notes/x: new, at 2222222"),
        );
        let branch = Some("ref: refs/heads/main");
        check(".git/HEAD", branch, one, Some("HEAD: main → 1111111"));
        let stash = ".git/logs/refs/stash";
        check(stash, None, Some("1 ab"), Some("stash: 0 → 1 entries"));
        check(
            stash,
            Some("1 ab"),
            Some("1 cd"),
            Some("stash: 1 other entries"),
        );
        check(
            ".git/index",
            Some("1 a"),
            Some("2 b"),
            Some("index: 1 → 2 files"),
        );
        check(
            ".git/MERGE_HEAD",
            None,
            Some("x"),
            Some("merge: in progress"),
        );
        check(".git/ORIG_HEAD", None, Some("x"), None);
        check("src/HEAD", None, Some("x"), None);
    }
}
