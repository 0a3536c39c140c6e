//! Which paths a pattern matches, and which `.gitignore` excludes. Listing, finding and searching
//! share these rules.

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use haft_contract::{ErrorKind, WorkPath, ops::OpsError};

use super::tree::{NodeKind, Tree};

/// A pattern over paths. Without a slash it matches the name at any depth; `**/` also matches
/// nothing, so `**/*.rs` finds files at the top.
pub(super) fn pattern(text: &str) -> Result<GlobMatcher, OpsError> {
    build(&anywhere(text)).map(|glob| glob.compile_matcher())
}

/// A set of withheld patterns.
pub(super) fn withheld(patterns: &[String]) -> Result<GlobSet, OpsError> {
    let mut set = GlobSetBuilder::new();
    for text in patterns {
        set.add(build(&anywhere(text))?);
    }
    set.build().map_err(|error| refused(&error))
}

/// Whether the tree's `.gitignore` files exclude a path, by its own name or a parent's.
pub(super) fn is_ignored(tree: &Tree, path: &str) -> bool {
    let Ok(path) = WorkPath::relative(path) else {
        return false;
    };
    if path
        .parent()
        .is_some_and(|parent| !parent.is_root() && is_ignored(tree, parent.as_str()))
    {
        return true;
    }
    let is_directory = tree
        .get(&path)
        .is_some_and(|node| matches!(node.what, NodeKind::Directory));
    let mut directories: Vec<WorkPath> =
        std::iter::successors(path.parent(), WorkPath::parent).collect();
    directories.reverse();
    let mut ignored = false;
    for directory in directories {
        for (rule, keep) in rules(tree, &directory, is_directory) {
            let below = if directory.is_root() {
                path.as_str()
            } else {
                &path.as_str()[directory.as_str().len() + 1..]
            };
            if rule.is_match(below) {
                ignored = !keep;
            }
        }
    }
    ignored
}

/// The rules of one directory's `.gitignore`: a pattern, and whether it re-includes.
fn rules(tree: &Tree, directory: &WorkPath, for_directory: bool) -> Vec<(GlobMatcher, bool)> {
    let Some(NodeKind::File(bytes)) = directory
        .join(".gitignore")
        .ok()
        .and_then(|path| tree.get(&path))
        .map(|node| &node.what)
    else {
        return Vec::new();
    };
    String::from_utf8_lossy(bytes)
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let (line, keep) = match line.strip_prefix('!') {
                Some(rest) => (rest, true),
                None => (line, false),
            };
            let (line, directories_only) = match line.strip_suffix('/') {
                Some(rest) => (rest, true),
                None => (line, false),
            };
            if directories_only && !for_directory {
                return None;
            }
            let text = match line.strip_prefix('/') {
                Some(anchored) => anchored.to_owned(),
                None => anywhere(line),
            };
            build(&text).ok().map(|glob| (glob.compile_matcher(), keep))
        })
        .collect()
}

fn anywhere(text: &str) -> String {
    if text.contains('/') {
        text.to_owned()
    } else {
        format!("**/{text}")
    }
}

fn build(text: &str) -> Result<globset::Glob, OpsError> {
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map_err(|error| refused(&error))
}

fn refused(error: &globset::Error) -> OpsError {
    OpsError::new(
        ErrorKind::InvalidInput,
        format!("the pattern cannot be read: {error}"),
    )
}
