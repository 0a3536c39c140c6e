//! `undo`: puts files and rows back to what they held before the named calls.
//!
//! Not offered to models: the program that runs Haft calls it for people
//! ([`crate::catalog::undo_tool`]). It names calls and paths, never content: the runtime supplies
//! what the calls left, and only for calls the caller may see. Every write goes through the guarded
//! files, so an undo is recorded, keeps its own pre-images, and can be undone.

mod fold;
mod git;
mod git_lines;
mod output;
mod restore;
mod rows;

use std::{collections::BTreeSet, time::Duration};

use haft_contract::{
    Access, CallContext, CallId, Content, Deadline, Effects, ErrorKind, NoProgress, Plan,
    PlanContext, Tool, ToolError, ToolSpec, WorkPath,
    context::{PastChanges, PreviewContext},
    ops::{FileOps, GitPart, PutBackRun},
    preview::{FileChangeKind, FileDiff, MAX_PREVIEW_BYTES, Preview, PreviewPart},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

pub use self::{
    fold::{Chain, FileState, FoldedChange, FoldedChanges},
    git_lines::git_lines,
    output::{GitState, UndoConflict, UndoImpossible, UndoOutput},
    rows::{RowConflict, RowsOnRecord},
};
use self::{
    output::{git_notes, row_notes},
    restore::{Conflict, Restoration, put_back, work_out},
    rows::RowsView,
};
use crate::{
    change::FileChange,
    text::{diff::capped, display::one_line, heavy::by_size},
};

/// The most files one call restores.
pub const MAX_UNDO_PATHS: usize = 1_000;

/// The most calls one call undoes.
pub const MAX_UNDO_CALLS: usize = 20_000;

/// Larger content is shown by its size, not line by line: it is bound by the named calls, whose
/// record does not change.
const MAX_SHOWN_BYTES: usize = MAX_PREVIEW_BYTES / 8;

/// The most bytes of conflicts in one result.
const MAX_CONFLICT_BYTES: usize = 192 * 1024;

/// Why a file stays where git's state does.
const STAYS_WITH_GIT: &str = "it changed together with git's state, which stays";

/// How long a database is looked at before a person is asked.
const LOOK_WAIT: Duration = Duration::from_secs(10);

/// Many files take a while.
const DEADLINE: Deadline = Deadline::new(Duration::from_mins(5), Duration::from_mins(10));

const DESCRIPTION: &str = "\
Puts files and rows of databases back to what they held before the named calls: what they changed is changed back, what \
they removed comes back, what they created is removed.
A file that is not what these calls left is a conflict: it stays as it is and both changes are \
shown. Git's branches, tags, stashes, HEAD and index go back too, all of them or none. The undo is itself a recorded call and can be undone.";

/// The `undo` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct UndoTool;

/// What `undo` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoInput {
    /// The ids of the calls to take back.
    #[schemars(length(min = 1))]
    pub calls: Vec<String>,
    /// Which of the files they changed to put back, relative to the workspace.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Which columns of databases to put back, as rules name them: `crm.orders.status`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// What putting them back reads besides.
    #[serde(default)]
    pub columns_read: Vec<String>,
    /// Whether only to show what would be put back.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether git's state stayed in an earlier part of the same undo: files that changed together
    /// with it stay too.
    #[serde(default)]
    pub git_stays: bool,
}

impl Tool for UndoTool {
    type Input = UndoInput;
    type Output = UndoOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "undo";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Undo calls", DESCRIPTION)
            .effects(Effects::REPLACES)
            .deadline(DEADLINE)
            .for_hosts()
            .groups(&["files"])
    }

    fn plan(&self, input: &UndoInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        calls(input)?;
        if input.paths.len() > MAX_UNDO_PATHS {
            return Err(ToolError::new(
                ErrorKind::LimitExceeded,
                format!("one undo puts back at most {MAX_UNDO_PATHS} files"),
            )
            .at("/paths")
            .hint("name some of them, then the others"));
        }
        if input.paths.is_empty() && input.columns.is_empty() {
            let message = "neither files nor columns are named";
            return Err(ToolError::invalid_input(message).at("/paths"));
        }
        let mut plan = if input.dry_run {
            Plan::read_only()
        } else {
            Plan::new(Effects::REPLACES)
        }
        .each_path_by_itself();
        for (columns, writes) in [(&input.columns, true), (&input.columns_read, false)] {
            for source in columns {
                plan = plan.access(Access::Database {
                    source: source.clone(),
                    writes: writes && !input.dry_run,
                });
            }
        }
        for (index, path) in input.paths.iter().enumerate() {
            let path = cx.path(path, &format!("/paths/{index}"))?;
            plan = plan.access(if input.dry_run {
                Access::read(path)
            } else {
                Access::write(path)
            });
        }
        Ok(plan)
    }

    async fn run(
        &self,
        input: UndoInput,
        cx: CallContext<NoProgress>,
    ) -> Result<UndoOutput, ToolError> {
        let paths = paths(&input, |text, pointer| cx.path(text, pointer))?;
        let folded = FoldedChanges::of(&cx.past().of(&calls(&input)?).await?);
        let mut output = UndoOutput {
            dry_run: input.dry_run,
            ..UndoOutput::default()
        };
        let rows = rows_of(&input, &folded);
        let view = RowsView {
            databases: cx.databases(),
            past: cx.past(),
            cancel: cx.cancel(),
            run: if input.dry_run {
                PutBackRun::Dry
            } else {
                PutBackRun::ForReal
            },
        };
        output.take_rows(view.put_back(&rows, || cx.remaining()).await?);
        if input.paths.is_empty() {
            return Ok(output);
        }
        let (parts, paths) = split(paths);
        let git = git::work_out(cx.repository(), cx.past(), &parts, &folded).await?;
        let put = if input.dry_run {
            Ok(())
        } else {
            git::put_back(cx.repository(), &git).await
        };
        let git_stays = git.stays() || put.is_err() || input.git_stays;
        output.take_git(git, put.err().map(|error| error.message().to_owned()));
        let staying = if git_stays {
            git::together(cx.repository(), cx.past(), &paths, &folded).await?
        } else {
            BTreeSet::new()
        };
        let mut room = MAX_CONFLICT_BYTES;
        for path in paths {
            if cx.cancel().is_cancelled() {
                return Err(ToolError::new(
                    ErrorKind::Cancelled,
                    format!(
                        "stopped after {} files were put back",
                        output.restored.len()
                    ),
                )
                .hint("undo again: files that are already back stay as they are"));
            }
            let look = RestoreView {
                files: cx.files(),
                past: cx.past(),
                cancel: cx.cancel(),
                staying: &staying,
            };
            let restoration = look.restoration(&path, &folded).await?;
            if input.dry_run
                && let Some(diff) = look.change(&path, &restoration).await?
            {
                output.diff.push_str(&noted(diff));
                output.restored.push(path.as_str().to_owned());
                continue;
            }
            let put = match &restoration {
                Restoration::Write { now, bytes, mode } => {
                    Some(put_back(cx.files(), &path, now.as_ref(), bytes, *mode).await)
                }
                Restoration::Remove { now } => {
                    Some(cx.files().remove_version(&path, &now.version).await)
                }
                Restoration::AsBefore | Restoration::Conflict(_) | Restoration::Impossible(_) => {
                    None
                }
            };
            let name = path.as_str().to_owned();
            match (put, restoration) {
                (Some(Ok(())), _) => output.restored.push(name),
                (Some(Err(error)), _) => output.impossible.push(UndoImpossible {
                    path: name,
                    reason: error.message().to_owned(),
                }),
                (None, Restoration::Conflict(conflict)) => {
                    let shown = look.conflict(path, conflict, room).await?;
                    room = room.saturating_sub(shown.by_the_calls.len() + shown.since.len());
                    output.conflicts.push(shown);
                }
                (None, Restoration::Impossible(reason)) => {
                    output
                        .impossible
                        .push(UndoImpossible { path: name, reason });
                }
                (None, _) => output.unchanged.push(name),
            }
        }
        Ok(output)
    }

    async fn preview(&self, input: &UndoInput, cx: PreviewContext) -> Result<Preview, ToolError> {
        let paths = paths(input, |text, pointer| cx.path(text, pointer))?;
        let folded = FoldedChanges::of(&cx.past.of(&calls(input)?).await?);
        let mut preview = Preview::default();
        let view = RowsView {
            databases: &*cx.databases,
            past: &*cx.past,
            cancel: &cx.cancel,
            run: PutBackRun::Dry,
        };
        let rows = view
            .put_back(&rows_of(input, &folded), || LOOK_WAIT)
            .await?;
        preview
            .parts
            .extend(row_notes(&rows).map(PreviewPart::Note));
        if input.paths.is_empty() {
            return Ok(preview);
        }
        let (parts, paths) = split(paths);
        let git = git::work_out(&*cx.repository, &*cx.past, &parts, &folded).await?;
        let staying = if git.stays() || input.git_stays {
            git::together(&*cx.repository, &*cx.past, &paths, &folded).await?
        } else {
            BTreeSet::new()
        };
        let look = RestoreView {
            files: &*cx.files,
            past: &*cx.past,
            cancel: &cx.cancel,
            staying: &staying,
        };
        preview.parts.extend(git_notes(&git).map(PreviewPart::Note));
        for path in paths {
            let restoration = look.restoration(&path, &folded).await?;
            let name = one_line(path.as_str()).into_owned();
            if let Some(diff) = look.change(&path, &restoration).await? {
                preview.parts.push(PreviewPart::Diff(diff));
                continue;
            }
            preview.parts.push(match restoration {
                Restoration::Write { .. } | Restoration::Remove { .. } | Restoration::AsBefore => {
                    PreviewPart::Note(format!("`{name}` is already as it was"))
                }
                Restoration::Conflict(Conflict { reason, .. }) => {
                    PreviewPart::Note(format!("`{name}` stays as it is: {reason}"))
                }
                Restoration::Impossible(why) => {
                    PreviewPart::Note(format!("`{name}` cannot be put back: {why}"))
                }
            });
        }
        Ok(preview)
    }

    fn render(&self, output: &UndoOutput) -> Vec<Content> {
        vec![Content::Text(output.text())]
    }
}

/// The changes of rows that the input names, in the order they happened.
fn rows_of(input: &UndoInput, folded: &FoldedChanges) -> Vec<RowsOnRecord> {
    let named = |change: &&RowsOnRecord| {
        let mut writes = change.writes.iter();
        writes.all(|written| input.columns.contains(written))
    };
    folded.rows.iter().filter(named).cloned().collect()
}

/// Separates parts of git's state from files.
fn split(paths: Vec<WorkPath>) -> (Vec<(WorkPath, GitPart)>, Vec<WorkPath>) {
    let mut parts = Vec::new();
    let mut files = Vec::new();
    for path in paths {
        match GitPart::of(&path) {
            Some(part) => parts.push((path, part)),
            None => files.push(path),
        }
    }
    (parts, files)
}

/// The context restorations are computed in: the call, or its preview.
struct RestoreView<'a> {
    files: &'a dyn FileOps,
    past: &'a dyn PastChanges,
    cancel: &'a CancellationToken,
    /// The files that stay because git's state does.
    staying: &'a BTreeSet<WorkPath>,
}

impl RestoreView<'_> {
    async fn restoration(
        &self,
        path: &WorkPath,
        folded: &FoldedChanges,
    ) -> Result<Restoration, ToolError> {
        match folded.files.get(path) {
            Some(change) => {
                let restoration = work_out(self.files, self.past, path, change).await?;
                let stays = self.staying.contains(path);
                Ok(match restoration {
                    Restoration::Write { .. } | Restoration::Remove { .. } if stays => {
                        Restoration::Impossible(STAYS_WITH_GIT.to_owned())
                    }
                    other => other,
                })
            }
            None => Ok(Restoration::Impossible(folded.unchanged())),
        }
    }

    /// What restoring a file changes, if anything.
    async fn change(
        &self,
        path: &WorkPath,
        restoration: &Restoration,
    ) -> Result<Option<FileDiff>, ToolError> {
        let (now, bytes) = match restoration {
            Restoration::Write { now, bytes, .. } => (
                now.as_ref().map(|now| now.bytes.clone()),
                Some(bytes.clone()),
            ),
            Restoration::Remove { now } => (Some(now.bytes.clone()), None),
            Restoration::AsBefore | Restoration::Conflict(_) | Restoration::Impossible(_) => {
                return Ok(None);
            }
        };
        self.shown(path.clone(), now, bytes).await.map(Some)
    }

    async fn shown(
        &self,
        path: WorkPath,
        before: Option<Vec<u8>>,
        after: Option<Vec<u8>>,
    ) -> Result<FileDiff, ToolError> {
        let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let (old, new) = (size(&before), size(&after));
        if old.max(new) > MAX_SHOWN_BYTES {
            let change = match (&before, &after) {
                (None, _) => FileChangeKind::Create,
                (Some(_), None) => FileChangeKind::Remove,
                (Some(_), Some(_)) => FileChangeKind::Change,
            };
            return Ok(FileDiff {
                path,
                change,
                text: String::new(),
                note: Some(format!("{old} bytes become {new} bytes")),
            });
        }
        by_size(old + new, self.cancel, move |_| {
            let change = FileChange {
                path: &path,
                to: None,
                before: before.as_deref(),
                after: after.as_deref(),
            };
            Ok(change.show().diff)
        })
        .await
    }

    /// A conflict with both sides: what the calls did, and what happened since.
    async fn conflict(
        &self,
        path: WorkPath,
        conflict: Conflict,
        room: usize,
    ) -> Result<UndoConflict, ToolError> {
        let after = conflict.after.clone();
        let by_the_calls = self.shown(path.clone(), conflict.before, after).await?;
        let since = self
            .shown(path.clone(), conflict.after, conflict.now)
            .await?;
        let (mut by_the_calls, mut since) = (noted(by_the_calls), noted(since));
        if by_the_calls.len() + since.len() > room {
            let left_out = "[left out: too many conflicts to show]\n";
            (by_the_calls, since) = (left_out.to_owned(), left_out.to_owned());
        }
        Ok(UndoConflict {
            path: path.as_str().to_owned(),
            reason: conflict.reason.to_owned(),
            by_the_calls,
            since,
        })
    }
}

/// A diff for a result: capped, with its note.
fn noted(diff: FileDiff) -> String {
    let text = capped(&diff.text);
    match diff.note {
        Some(note) => format!("{text}[{}: {note}]\n", one_line(diff.path.as_str())),
        None => text,
    }
}

fn calls(input: &UndoInput) -> Result<Vec<CallId>, ToolError> {
    if input.calls.len() > MAX_UNDO_CALLS {
        return Err(ToolError::new(
            ErrorKind::LimitExceeded,
            format!("one undo takes back at most {MAX_UNDO_CALLS} calls"),
        )
        .at("/calls"));
    }
    let parse = |(index, id): (usize, &String)| {
        CallId::parse(id).ok_or_else(|| {
            ToolError::invalid_input(format!("`{}` is not the id of a call", one_line(id)))
                .at(format!("/calls/{index}"))
        })
    };
    input.calls.iter().enumerate().map(parse).collect()
}

fn paths(
    input: &UndoInput,
    parse: impl Fn(&str, &str) -> Result<WorkPath, ToolError>,
) -> Result<Vec<WorkPath>, ToolError> {
    let parse = |(index, path): (usize, &String)| parse(path, &format!("/paths/{index}"));
    input.paths.iter().enumerate().map(parse).collect()
}
