//! `patch`: changes several files in one step, or none.
//!
//! Everything is read, placed and checked before anything is written. If a write then fails, the
//! earlier writes are undone in reverse order, and the error names what could not be undone.

use std::{collections::BTreeSet, fmt::Write as _};

use haft_contract::{
    Access, CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool,
    ToolError, ToolSpec, WorkPath,
    context::PreviewContext,
    ops::{FileKind, FileVersion},
    preview::{FileChangeKind, Preview},
    spec::{ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    file_view::{FileView, preview_of, shown},
    patch_steps::{Step, apply_all},
    whole::read_whole,
};
use crate::change::{FileChange, ShownChange};
use crate::text::{
    diff::{MAX_DIFF_BYTES, capped},
    display::one_line,
    encoding::{DecodedText, is_binary},
    heavy::{Stop, WorkStopped, by_size},
    nearest::nearest_lines,
    patch::{self, FilePatch, Hunk, PlacementFailure},
};

/// The most bytes of diff returned across all files.
const MAX_DIFFS_BYTES: usize = 2 * MAX_DIFF_BYTES;

const DESCRIPTION: &str = "\
Applies a patch to one or more files, all of it or nothing: adds, updates, moves and deletes files.
Use it for changes that belong together across files or in many places; not for one small change (use \
`edit` instead). Read the files first.
`patch` is either a unified diff (`--- a/x`, `+++ b/x`, `@@ -1,3 +1,4 @@`) or this form:
*** Begin Patch
*** Update File: src/lib.rs
@@ fn main() {
 a line that stays
-a line that goes
+a line that comes
*** Add File: src/new.rs
+its first line
*** Delete File: src/old.rs
*** End Patch
`*** Move to: path` after `*** Update File:` moves the file. `@@ text` names a line above the change \
when the same lines occur more than once.";

/// The `patch` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct PatchTool;

/// What `patch` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchInput {
    /// The patch: a `*** Begin Patch` … `*** End Patch` envelope or a unified diff. Paths are
    /// relative to the workspace.
    #[schemars(length(min = 1))]
    pub patch: String,
}

/// What `patch` did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchOutput {
    /// The files changed, in the order of the patch.
    pub files: Vec<PatchedFile>,
    /// The changes as unified diffs.
    #[serde(skip)]
    diff: String,
}

/// What happened to one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PatchedFile {
    /// The file, relative to the workspace; where it moved to, if it moved.
    pub path: String,
    /// `added`, `updated`, `moved` or `deleted`.
    pub change: &'static str,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

impl Tool for PatchTool {
    type Input = PatchInput;
    type Output = PatchOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "patch";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Patch files", DESCRIPTION)
            .effects(Effects::REPLACES)
            .groups(&["files"])
            .aliases(&["apply_patch"])
            .parameter_aliases(&[
                ParameterAlias::new("input", "patch"),
                ParameterAlias::new("diff", "patch"),
            ])
            .foreign_calls(&[
                ForeignCall::new("move_file")
                    .instead("move it with `mv` in `bash`, or with `*** Move to:` in a `patch`"),
                ForeignCall::new("delete_file").instead(
                    "delete it with `rm` in `bash`, or with `*** Delete File:` in a `patch`",
                ),
            ])
    }

    fn plan(&self, input: &PatchInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let files = parse(&input.patch)?;
        let mut plan = Plan::new(Effects {
            idempotent: false,
            destructive: files.iter().any(removes),
            ..Effects::CHANGES
        });
        let mut named = BTreeSet::new();
        for file in &files {
            for (path, access) in accesses(file, |text| cx.path(text, "/patch"))? {
                if !named.insert(path.clone()) {
                    return Err(ToolError::invalid_input(format!(
                        "`{}` is named twice in the patch",
                        one_line(path.as_str())
                    ))
                    .at("/patch")
                    .hint("put all changes of a file under one header"));
                }
                plan.accesses.extend(access);
            }
        }
        Ok(plan)
    }

    async fn run(
        &self,
        input: PatchInput,
        cx: CallContext<NoProgress>,
    ) -> Result<PatchOutput, ToolError> {
        let mut steps = Vec::new();
        let mut output = PatchOutput {
            files: Vec::new(),
            diff: String::new(),
        };
        for file in parse(&input.patch)? {
            let prepared = prepare(&cx, file).await?;
            let summary = prepared.summary();
            let diff = capped(&prepared.shown.diff.text);
            if output.diff.len() + diff.len() <= MAX_DIFFS_BYTES {
                output.diff.push_str(&diff);
            } else {
                // Writing to a `String` cannot fail.
                let _ = writeln!(
                    output.diff,
                    "[diff of {} left out]",
                    one_line(&summary.path)
                );
            }
            output.files.push(summary);
            steps.push(prepared.step);
        }
        if cx.cancel().is_cancelled() {
            return Err(ToolError::new(
                ErrorKind::Cancelled,
                "stopped before anything was written",
            ));
        }
        apply_all(cx.files(), steps).await?;
        Ok(output)
    }

    async fn preview(&self, input: &PatchInput, cx: PreviewContext) -> Result<Preview, ToolError> {
        let mut changes = Vec::new();
        for file in parse(&input.patch)? {
            changes.push(prepare(&cx, file).await?.shown);
        }
        Ok(preview_of(changes))
    }

    fn render(&self, output: &PatchOutput) -> Vec<Content> {
        let mut text = String::new();
        for file in &output.files {
            let path = one_line(&file.path);
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "{} {path} (+{} -{})",
                file.change, file.added, file.removed
            );
        }
        text.push_str(&output.diff);
        vec![Content::Text(text)]
    }
}

fn parse(text: &str) -> Result<Vec<FilePatch>, ToolError> {
    patch::parse(text).map_err(|error| {
        ToolError::invalid_input(error.to_string())
            .at("/patch")
            .hint("nothing was changed; send the whole patch again")
    })
}

fn removes(file: &FilePatch) -> bool {
    match file {
        FilePatch::Add { .. } => false,
        FilePatch::Delete { .. } => true,
        FilePatch::Update { move_to, .. } => move_to.is_some(),
    }
}

/// Every path that one file's patch touches, with its accesses.
fn accesses(
    file: &FilePatch,
    parse_path: impl Fn(&str) -> Result<WorkPath, ToolError>,
) -> Result<Vec<(WorkPath, Vec<Access>)>, ToolError> {
    let changed = |path: WorkPath| {
        let both = vec![Access::read(path.clone()), Access::write(path.clone())];
        (path, both)
    };
    let created = |path: WorkPath| (path.clone(), vec![Access::write(path)]);
    Ok(match file {
        FilePatch::Add { path, .. } => vec![created(parse_path(path)?)],
        FilePatch::Delete { path, .. } => vec![changed(parse_path(path)?)],
        FilePatch::Update { path, move_to, .. } => {
            let mut all = vec![changed(parse_path(path)?)];
            if let Some(to) = move_to {
                all.push(created(parse_path(to)?));
            }
            all
        }
    })
}

/// One file's patch, checked against the file but not yet written.
struct PreparedPatch {
    step: Step,
    shown: ShownChange,
}

impl PreparedPatch {
    fn summary(&self) -> PatchedFile {
        let diff = &self.shown.diff;
        let (path, change) = match &diff.change {
            FileChangeKind::Create => (&diff.path, "added"),
            FileChangeKind::Change => (&diff.path, "updated"),
            FileChangeKind::Remove => (&diff.path, "deleted"),
            FileChangeKind::Move { to } => (to, "moved"),
        };
        PatchedFile {
            path: path.as_str().to_owned(),
            change,
            added: self.shown.added,
            removed: self.shown.removed,
        }
    }
}

async fn prepare(cx: &impl FileView, file: FilePatch) -> Result<PreparedPatch, ToolError> {
    match file {
        FilePatch::Add { path, content } => {
            let path = cx.path(&path, "/patch")?;
            refuse_existing(cx, &path).await?;
            let bytes = content.into_bytes();
            let shown = shown(cx, path.clone(), None, Some(bytes.clone())).await?;
            let step = Step::Create { path, bytes };
            Ok(PreparedPatch { step, shown })
        }
        FilePatch::Delete { path, hunks } => {
            let path = cx.path(&path, "/patch")?;
            let FileRead {
                bytes,
                version,
                mode,
            } = read(cx, &path).await?;
            let job = Job {
                path: path.clone(),
                end: FileFate::Gone,
                before: bytes,
                hunks,
            };
            let worked = job.work(cx).await?;
            let step = Step::Remove {
                path,
                bytes: worked.before,
                version,
                mode,
            };
            Ok(PreparedPatch {
                step,
                shown: worked.shown,
            })
        }
        FilePatch::Update {
            path,
            move_to,
            hunks,
        } => {
            let path = cx.path(&path, "/patch")?;
            let FileRead {
                bytes: before,
                version,
                ..
            } = read(cx, &path).await?;
            let moved = move_to.map(|to| cx.path(&to, "/patch")).transpose()?;
            let job = Job {
                path: path.clone(),
                end: moved.clone().map_or(FileFate::Changed, FileFate::Moved),
                before,
                hunks,
            };
            let PatchedText {
                before,
                after,
                shown,
            } = job.work(cx).await?;
            let step = match moved {
                None => Step::Change {
                    path,
                    before,
                    after,
                    version,
                },
                Some(to) => {
                    refuse_existing(cx, &to).await?;
                    Step::Move {
                        from: path,
                        to,
                        before,
                        after,
                        version,
                    }
                }
            };
            Ok(PreparedPatch { step, shown })
        }
    }
}

/// The text work on one existing file.
struct Job {
    path: WorkPath,
    end: FileFate,
    before: Vec<u8>,
    hunks: Vec<Hunk>,
}

/// What happens to an existing file.
enum FileFate {
    Gone,
    Changed,
    Moved(WorkPath),
}

/// The result of the text work.
struct PatchedText {
    before: Vec<u8>,
    after: Vec<u8>,
    shown: ShownChange,
}

impl Job {
    async fn work(self, cx: &impl FileView) -> Result<PatchedText, ToolError> {
        let size = self.before.len() + self.hunks.iter().map(Hunk::size).sum::<usize>();
        by_size(size, cx.cancel(), move |stop| self.work_here(stop)).await
    }

    fn work_here(self, stop: &Stop) -> Result<PatchedText, ToolError> {
        let decoded = DecodedText::decode(&self.before);
        let (after, to) = match &self.end {
            FileFate::Gone => {
                self.refuse_lines_that_stay(&decoded, stop)?;
                (None, None)
            }
            FileFate::Changed => (Some(self.changed_bytes(&decoded, stop)?), None),
            FileFate::Moved(to) => (Some(self.changed_bytes(&decoded, stop)?), Some(to)),
        };
        stop.check()?;
        let change = FileChange {
            path: &self.path,
            to,
            before: Some(&self.before),
            after: after.as_deref(),
        };
        let shown = change.show();
        Ok(PatchedText {
            after: after.unwrap_or_default(),
            shown,
            before: self.before,
        })
    }

    /// A patch that spells out the deleted content must spell out all of it.
    fn refuse_lines_that_stay(
        &self,
        decoded: &DecodedText<'_>,
        stop: &Stop,
    ) -> Result<(), ToolError> {
        if self.hunks.is_empty() || self.changed_bytes(decoded, stop)?.is_empty() {
            return Ok(());
        }
        Err(ToolError::new(
            ErrorKind::NoMatch,
            format!(
                "`{}` has lines the patch does not delete; nothing was changed",
                one_line(self.path.as_str())
            ),
        )
        .at("/patch")
        .hint("read the file again before deleting it"))
    }

    fn changed_bytes(&self, decoded: &DecodedText<'_>, stop: &Stop) -> Result<Vec<u8>, ToolError> {
        changed_bytes(&self.path, decoded, &self.hunks, stop)
    }
}

/// A file named in the patch, as read.
struct FileRead {
    bytes: Vec<u8>,
    version: FileVersion,
    mode: u32,
}

async fn read(cx: &impl FileView, path: &WorkPath) -> Result<FileRead, ToolError> {
    let at_patch = |error: ToolError| error.at("/patch");
    let reader = cx.files().open(path).await;
    let reader = reader.map_err(|error| {
        at_patch(error.into()).hint("nothing was changed; check the path with `find`")
    })?;
    let file = read_whole(&*reader, path).await.map_err(at_patch)?;
    Ok(FileRead {
        bytes: file.bytes,
        version: file.version,
        mode: reader.own_mode(),
    })
}

async fn refuse_existing(cx: &impl FileView, path: &WorkPath) -> Result<(), ToolError> {
    match cx.files().stat(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ToolError::from(error).at("/patch")),
        Ok(stat) => {
            let what = match stat.kind {
                FileKind::File => "file",
                FileKind::Directory => "directory",
                FileKind::Symlink => "symlink",
                FileKind::Other => "special file",
            };
            Err(ToolError::new(
                ErrorKind::AlreadyExists,
                format!(
                    "`{}` exists already as a {what}; nothing was changed",
                    one_line(path.as_str())
                ),
            )
            .at("/patch")
            .hint("use `*** Update File:` to change it"))
        }
    }
}

fn changed_bytes(
    path: &WorkPath,
    decoded: &DecodedText<'_>,
    hunks: &[Hunk],
    stop: &Stop,
) -> Result<Vec<u8>, ToolError> {
    let name = one_line(path.as_str());
    if !hunks.is_empty() && is_binary(decoded.bytes()) {
        return Err(ToolError::invalid_input(format!("`{name}` is a binary file")).at("/patch"));
    }
    let replacements = patch::place(decoded.text(), hunks, stop)
        .map_err(|unplaced| not_placed(&name, decoded.text(), &unplaced, stop))?;
    decoded.splice(&replacements).map_err(|refused| {
        ToolError::invalid_input(format!(
            "the change to `{name}` cannot be written in its encoding, {}",
            refused.encoding
        ))
        .at("/patch")
        .hint("convert the file to UTF-8 first, for example with `iconv` in `bash`")
    })
}

fn not_placed(name: &str, text: &str, unplaced: &PlacementFailure, stop: &Stop) -> ToolError {
    let refused = |message: String| ToolError::new(ErrorKind::LimitExceeded, message).at("/patch");
    match unplaced {
        PlacementFailure::Stopped => WorkStopped.into(),
        PlacementFailure::TooManyLines => {
            refused(format!("`{name}` has too many lines; nothing was changed"))
                .hint("change a file this large with a command in `bash`, such as `sed`")
        }
        PlacementFailure::TooMuchWork => refused(format!(
            "finding where the hunks belong in `{name}` takes too long; nothing was changed"
        ))
        .hint("split the patch into smaller ones"),
        PlacementFailure::NoFit { patch_line, wanted } => {
            let error = ToolError::new(
                ErrorKind::NoMatch,
                format!(
                    "the hunk at line {patch_line} of the patch does not fit `{name}`; nothing was \
                     changed"
                ),
            )
            .at("/patch")
            .hint("copy the lines around the change from a fresh `read`");
            match nearest_lines(text, wanted, stop) {
                Ok(Some(nearest)) => error.with_content(Content::Text(nearest)),
                Ok(None) => error,
                Err(stopped) => stopped.into(),
            }
        }
    }
}
