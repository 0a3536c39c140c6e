//! Computes how to put a git repository back to where it was, and does it: all of its state or none.
//!
//! A ref that moved while the index stayed would be a state that the repository never had. So if one
//! essential part is not what the calls left, or what it named is gone, the whole state stays as it
//! is, and the parts in the way are named; so do files of an index that the same calls changed. Other
//! files of the work tree go back by themselves.

use std::collections::BTreeSet;

use haft_contract::{
    ErrorKind, ToolError, WorkPath,
    context::PastChanges,
    ops::{FileVersion, GitPart, OpsError, PartChange, RepositoryOps, RepositoryPart, part_value},
};

use super::{
    fold::{Chain, FileState, FoldedChange, FoldedChanges},
    git_lines::{line, rank, ref_name, shown, version},
    restore::{kept, stops_the_call},
};

/// How to put a repository back.
#[derive(Debug, Default)]
pub(super) struct GitRestoration {
    /// What to change, in this order; empty if the state stays as it is.
    pub(super) changes: Vec<PartChange>,
    /// The same, in words.
    pub(super) lines: Vec<String>,
    /// Parts that are as before already.
    pub(super) unchanged: Vec<String>,
    /// Parts that are not what the calls left.
    pub(super) conflicts: Vec<GitConflict>,
    /// Parts that cannot be put back, each with the reason.
    pub(super) impossible: Vec<(String, String)>,
}

/// A part that is not what the calls left.
#[derive(Debug)]
pub(super) struct GitConflict {
    pub(super) path: String,
    pub(super) reason: &'static str,
    /// What the calls changed, and what was changed since, in one line each.
    pub(super) by_the_calls: String,
    pub(super) since: String,
}

/// What to do about one part.
enum PartStep {
    AsBefore,
    Change(PartChange),
    Conflict(GitConflict),
    Impossible(String),
}

/// Works out how to put these parts back.
pub(super) async fn work_out(
    repository: &dyn RepositoryOps,
    past: &dyn PastChanges,
    parts: &[(WorkPath, GitPart)],
    folded: &FoldedChanges,
) -> Result<GitRestoration, ToolError> {
    let mut found = GitRestoration::default();
    let mut is_blocked = false;
    for (path, part) in parts {
        let step = match folded.files.get(path) {
            Some(change) => step(repository, past, path, change).await?,
            None => PartStep::Impossible(folded.unchanged()),
        };
        let name = path.as_str().to_owned();
        match step {
            PartStep::AsBefore if part.is_essential() => found.unchanged.push(name),
            PartStep::AsBefore => {}
            PartStep::Change(change) => found.changes.push(change),
            PartStep::Conflict(conflict) if part.is_essential() => {
                is_blocked = true;
                found.conflicts.push(conflict);
            }
            PartStep::Impossible(reason) if part.is_essential() => {
                is_blocked = true;
                found.impossible.push((name, reason));
            }
            PartStep::Conflict(GitConflict { reason, .. }) => {
                found.lines.push(format!("`{name}` stays: {reason}"));
            }
            PartStep::Impossible(reason) => found.lines.push(format!("`{name}` stays: {reason}")),
        }
    }
    is_blocked |= name_missing_objects(repository, &mut found).await?;
    if !found.changes.is_empty()
        && let Some(reason) = repository.unfinished().await?
    {
        is_blocked = true;
        found.impossible.push((".git".to_owned(), reason));
    }
    if is_blocked {
        found.leave();
    } else {
        found.describe(folded);
    }
    Ok(found)
}

impl GitRestoration {
    /// Whether a part that should go back stays.
    pub(super) fn stays(&self) -> bool {
        !self.conflicts.is_empty() || !self.impossible.is_empty()
    }

    /// Leaves the whole state as it is.
    fn leave(&mut self) {
        self.lines.clear();
        let known: Vec<String> = self
            .impossible
            .iter()
            .map(|(path, _)| path.clone())
            .collect();
        for change in std::mem::take(&mut self.changes) {
            let is_essential = GitPart::of(&change.path).is_some_and(GitPart::is_essential);
            let path = change.path.as_str().to_owned();
            if is_essential && !known.contains(&path) {
                let reason = "git's state goes back as a whole, and part of it cannot go back";
                self.impossible.push((path, reason.to_owned()));
            }
        }
    }

    fn describe(&mut self, folded: &FoldedChanges) {
        let lines = self.changes.iter().filter_map(|change| {
            let before = version(&folded.files.get(&change.path)?.before);
            let line = line(&change.path, change.expected.as_ref(), before)?;
            Some((rank(GitPart::of(&change.path)?), line))
        });
        let mut lines: Vec<(u8, String)> = lines.collect();
        lines.sort();
        let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        if lines.is_empty() && !self.changes.is_empty() {
            lines.push("reflogs only".to_owned());
        }
        lines.append(&mut self.lines);
        self.lines = lines;
    }
}

async fn step(
    repository: &dyn RepositoryOps,
    past: &dyn PastChanges,
    path: &WorkPath,
    change: &FoldedChange,
) -> Result<PartStep, ToolError> {
    let now: Option<RepositoryPart> = match repository.read(path).await {
        Ok(now) => now,
        Err(error) if stops_the_call(error.kind()) && error.kind() != ErrorKind::Unavailable => {
            return Err(error.into());
        }
        Err(error) => return Ok(PartStep::Impossible(error.message().to_owned())),
    };
    let now = now.map(|now| now.version);
    let (before, after) = match (&change.before, &change.after) {
        (FileState::Unknown, _) | (_, FileState::Unknown) => {
            let reason = "what it held is not on record";
            return Ok(PartStep::Impossible(reason.to_owned()));
        }
        (before, after) => (version(before), version(after)),
    };
    if now.as_ref() == before {
        return Ok(PartStep::AsBefore);
    }
    let reason = if change.chain == Chain::Broken {
        Some("somebody else changed it between these calls")
    } else if now.as_ref() == after {
        None
    } else {
        Some("it has changed since")
    };
    if let Some(reason) = reason {
        return Ok(PartStep::Conflict(GitConflict {
            path: path.as_str().to_owned(),
            reason,
            by_the_calls: told(path, before, after),
            since: told(path, after, now.as_ref()),
        }));
    }
    let bytes = match kept(past, &change.before).await {
        Ok(bytes) => bytes,
        Err(reason) => return Ok(PartStep::Impossible(reason)),
    };
    Ok(PartStep::Change(PartChange {
        path: path.clone(),
        expected: now,
        bytes,
        mode: change.before.mode(),
    }))
}

/// Names refs that would lead to an object that is gone. Returns whether there are any.
async fn name_missing_objects(
    repository: &dyn RepositoryOps,
    found: &mut GitRestoration,
) -> Result<bool, ToolError> {
    let wanted: Vec<(String, String)> = found
        .changes
        .iter()
        .filter_map(|change| {
            let part = GitPart::of(&change.path)?;
            let bytes = change.bytes.as_deref()?;
            let value = std::str::from_utf8(bytes).ok()?.trim_end();
            let names_object =
                matches!(part, GitPart::Head | GitPart::Ref) && !value.starts_with("ref:");
            names_object.then(|| (change.path.as_str().to_owned(), value.to_owned()))
        })
        .collect();
    let ids: Vec<String> = wanted.iter().map(|(_, id)| id.clone()).collect();
    if ids.is_empty() {
        return Ok(false);
    }
    let missing = repository.missing_objects(&ids).await?;
    let mut is_any = false;
    for (path, id) in wanted {
        if !missing.contains(&id) {
            continue;
        }
        is_any = true;
        let name = ref_name(path.strip_prefix(".git/").unwrap_or(&path));
        let reason = format!(
            "{name} was at {}, which is no longer in `.git/objects`; `git gc` or `git prune` removes \
             what nothing names",
            shown(&id)
        );
        found.impossible.push((path, reason));
    }
    Ok(is_any)
}

/// Which of these files belong together with git's state, so that they stay if it does: those that a
/// call changed along with it and that an index names, before the calls or after them. Other files go
/// back by themselves, so that a call cannot keep them from it by what it does to `.git`.
pub(super) async fn together(
    repository: &dyn RepositoryOps,
    past: &dyn PastChanges,
    files: &[WorkPath],
    folded: &FoldedChanges,
) -> Result<BTreeSet<WorkPath>, ToolError> {
    let is_candidate = |path: &&WorkPath| folded.with_git.contains(*path);
    let candidates: Vec<WorkPath> = files.iter().filter(is_candidate).cloned().collect();
    if candidates.is_empty() {
        return Ok(BTreeSet::new());
    }
    let all = || candidates.iter().cloned().collect();
    let mut indexes = Vec::new();
    let index = folded
        .files
        .iter()
        .find(|(path, _)| GitPart::of(path) == Some(GitPart::Index));
    match index {
        Some((_, change)) => {
            for state in [&change.before, &change.after] {
                match kept(past, state).await {
                    Ok(Some(bytes)) => indexes.push(Some(bytes)),
                    Ok(None) => {}
                    Err(_) => return Ok(all()),
                }
            }
        }
        // The calls left it alone.
        None => indexes.push(None),
    }
    let mut found = BTreeSet::new();
    for index in indexes {
        match repository.indexed(index.as_deref(), &candidates).await {
            Ok(Some(named)) => found.extend(named),
            // What an index names is not known, so everything may belong to it.
            Ok(None) => return Ok(all()),
            Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(all()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Puts everything back.
pub(super) async fn put_back(
    repository: &dyn RepositoryOps,
    restoration: &GitRestoration,
) -> Result<(), OpsError> {
    if restoration.changes.is_empty() {
        return Ok(());
    }
    repository.replace(&restoration.changes).await.map(drop)
}

/// A change of a part, for a conflict.
fn told(path: &WorkPath, from: Option<&FileVersion>, to: Option<&FileVersion>) -> String {
    line(path, from, to).unwrap_or_else(|| {
        let holds = |version: Option<&FileVersion>| {
            let value = version.and_then(part_value);
            value.map_or_else(|| "nothing".to_owned(), shown)
        };
        format!("{} → {}", holds(from), holds(to))
    })
}
