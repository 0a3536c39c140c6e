//! What `undo` did, as a result and in words.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    git::GitRestoration,
    rows::{RestoredRows, RowConflict, counted},
};
use crate::text::display::one_line;

/// What `undo` did.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct UndoOutput {
    /// Files that hold again what they held before, or are gone again.
    pub restored: Vec<String>,
    /// What became of git's state; absent if the calls did not change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_state: Option<GitState>,
    /// What of git's state went back, in one line each.
    pub git: Vec<String>,
    /// Files that held it already.
    pub unchanged: Vec<String>,
    /// Files that are not what the calls left, and were not touched.
    pub conflicts: Vec<UndoConflict>,
    /// Files and rows that cannot be put back.
    pub impossible: Vec<UndoImpossible>,
    /// How many rows of databases are as before again.
    pub rows_restored: u64,
    /// How many were already.
    pub rows_unchanged: u64,
    /// Rows that are not what the calls left, and were not touched.
    pub row_conflicts: Vec<RowConflict>,
    /// Whether nothing was touched.
    pub dry_run: bool,
    /// What would be changed, when nothing was.
    #[serde(skip)]
    pub(super) diff: String,
    /// What became of rows.
    #[serde(skip)]
    pub(super) row_lines: Vec<String>,
}

/// What became of git's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GitState {
    /// It is back, or would be.
    PutBack,
    /// It was as before already.
    AsBefore,
    /// It stays as it is.
    LeftAlone,
}

/// A file that is not what the calls left.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoConflict {
    /// The file, relative to the workspace.
    pub path: String,
    /// What is in the way.
    pub reason: String,
    /// What the calls changed, as a diff.
    pub by_the_calls: String,
    /// What was changed since, as a diff.
    pub since: String,
}

/// A file that cannot be put back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoImpossible {
    /// The file, relative to the workspace.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl UndoOutput {
    /// What a person reads.
    pub(super) fn text(&self) -> String {
        let mut text = self.diff.clone();
        text.push_str(&self.summary());
        text.push('\n');
        for line in &self.git {
            let _ = writeln!(text, "git: {line}");
        }
        for line in &self.row_lines {
            let _ = writeln!(text, "{line}");
        }
        for RowConflict { table, key, reason } in &self.row_conflicts {
            let _ = writeln!(text, "conflict: `{table}` ({key}): {reason}");
        }
        for conflict in &self.conflicts {
            let path = one_line(&conflict.path);
            let _ = writeln!(text, "\nconflict: {path}: {}", conflict.reason);
            let _ = writeln!(text, "what the calls changed:\n{}", conflict.by_the_calls);
            let _ = writeln!(text, "what changed since:\n{}", conflict.since);
        }
        for impossible in &self.impossible {
            let path = one_line(&impossible.path);
            let _ = writeln!(text, "\nnot put back: {path}: {}", impossible.reason);
        }
        text
    }

    /// How many files went back and how many did not, and what became of git's state, in one line.
    /// Files of `.git` are not counted: nobody knows them one by one.
    fn summary(&self) -> String {
        let done = if self.dry_run {
            "would be put back"
        } else {
            "put back"
        };
        let restored = self.restored.len();
        let is_file = |path: &str| path != ".git" && !path.starts_with(".git/");
        let conflicts = self.conflicts.iter().map(|file| file.path.as_str());
        let impossible = self.impossible.iter().map(|file| file.path.as_str());
        let (conflicts, impossible) = (
            conflicts.filter(|path| is_file(path)).count(),
            impossible.filter(|path| is_file(path)).count(),
        );
        let others = [
            (self.unchanged.len(), "as before already"),
            (conflicts, "in conflict and left alone"),
            (impossible, "could not be put back"),
        ];
        let has_files = restored > 0 || others.iter().any(|(count, _)| *count > 0);
        let mut parts = Vec::new();
        let of_rows = [
            (self.rows_restored, done),
            (self.rows_unchanged, "as before already"),
            (
                self.row_conflicts.len() as u64,
                "in conflict and left alone",
            ),
        ];
        for (count, what) in of_rows.into_iter().filter(|(count, _)| *count > 0) {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            parts.push(format!("{} {what}", counted(count)));
        }
        let has_rows = !parts.is_empty();
        if has_files || (self.git_state.is_none() && !has_rows) {
            parts.push(format!("{} {done}", files(restored)));
        }
        for (count, what) in others {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        match self.git_state {
            // Its lines say it.
            Some(GitState::PutBack) if has_files => {}
            Some(GitState::PutBack) => parts.push(format!("git's state {done}")),
            Some(GitState::AsBefore) => parts.push("git's state as before already".to_owned()),
            Some(GitState::LeftAlone) => parts.push("git's state left alone".to_owned()),
            None => {}
        }
        parts.join(", ")
    }

    /// Takes over what became of rows.
    pub(super) fn take_rows(&mut self, rows: RestoredRows) {
        self.rows_restored = rows.restored;
        self.rows_unchanged = rows.unchanged;
        self.row_conflicts = rows.conflicts;
        self.row_lines = rows.lines;
        if rows.unnamed > 0 {
            let more = counted(rows.unnamed);
            self.row_lines
                .push(format!("{more} more are in conflict and were left alone"));
        }
        let impossible = rows.impossible.into_iter();
        self.impossible
            .extend(impossible.map(|(path, reason)| UndoImpossible { path, reason }));
    }

    /// Takes over what became of git's state, and why it could not be put back.
    pub(super) fn take_git(&mut self, git: GitRestoration, failed: Option<String>) {
        self.git_state = if git.stays() || failed.is_some() {
            Some(GitState::LeftAlone)
        } else if !git.changes.is_empty() {
            Some(GitState::PutBack)
        } else if !git.unchanged.is_empty() {
            Some(GitState::AsBefore)
        } else {
            None
        };
        let conflicts = git.conflicts.into_iter().map(|conflict| UndoConflict {
            path: conflict.path,
            reason: conflict.reason.to_owned(),
            by_the_calls: conflict.by_the_calls,
            since: conflict.since,
        });
        self.conflicts.extend(conflicts);
        let impossible = git.impossible.into_iter();
        self.impossible
            .extend(impossible.map(|(path, reason)| UndoImpossible { path, reason }));
        match failed {
            None => self.git = git.lines,
            Some(reason) => self.impossible.push(UndoImpossible {
                path: ".git".to_owned(),
                reason,
            }),
        }
    }
}

/// What a person is shown about rows before they go back.
pub(super) fn row_notes(rows: &RestoredRows) -> impl Iterator<Item = String> {
    let lines = rows.lines.iter().cloned();
    let conflicts = rows.conflicts.iter().map(|conflict| {
        let RowConflict { table, key, reason } = conflict;
        format!("`{table}` ({key}) stays as it is: {reason}")
    });
    let unnamed =
        (rows.unnamed > 0).then(|| format!("{} more stay as they are", counted(rows.unnamed)));
    let impossible = rows.impossible.iter();
    let impossible = impossible.map(|(what, why)| format!("{what} cannot be put back: {why}"));
    let unchanged = (rows.unchanged > 0).then(|| {
        let count = usize::try_from(rows.unchanged).unwrap_or(usize::MAX);
        format!("{} already as before", counted(count))
    });
    lines
        .chain(unchanged)
        .chain(conflicts)
        .chain(unnamed)
        .chain(impossible)
}

/// What a person is shown about git's state before it goes back.
pub(super) fn git_notes(git: &GitRestoration) -> impl Iterator<Item = String> {
    let lines = git.lines.iter().map(|line| format!("git: {line}"));
    let conflicts = git.conflicts.iter().map(|conflict| {
        let (path, reason) = (one_line(&conflict.path), conflict.reason);
        format!("`{path}` stays as it is: {reason} ({})", conflict.since)
    });
    let impossible = git.impossible.iter();
    let impossible =
        impossible.map(|(path, why)| format!("`{}` cannot be put back: {why}", one_line(path)));
    lines.chain(conflicts).chain(impossible)
}

fn files(count: usize) -> String {
    match count {
        1 => "1 file".to_owned(),
        more => format!("{more} files"),
    }
}
