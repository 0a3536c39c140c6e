//! `copy`: copies one file and reports progress in bytes.
//!
//! The destination is complete or untouched. Symlinks are refused by resolving each path *before*
//! anything is opened; the back end refuses them again when it opens.

use std::time::Instant;

use haft_contract::{
    Access, CallContext, Content, Effects, ErrorKind, Plan, PlanContext, Progress, Tool, ToolError,
    ToolSpec, WorkPath,
    context::PreviewContext,
    ops::{CopyFile, FileKind, FileStat, Overwrite, ResolvedPath},
    preview::{FileChangeKind, FileDiff, MAX_PREVIEW_BYTES, Preview, PreviewPart},
    spec::{Deadline, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::file_view::{FileView, preview_of, shown, whole};
use crate::text::display::one_line;

const DESCRIPTION: &str = "\
Copies one regular file inside the workspace; its mode is kept and missing parent directories of \
the destination are created.
Use it instead of `cp` in `bash`. It copies neither directories nor symlinks.
The destination must not exist unless `overwrite` is set; it is replaced only once the copy is \
complete. Name the destination file itself, not a directory.";

/// A large copy takes as long as the disk needs, up to a limit.
const DEADLINE: Deadline = Deadline::new(Duration::from_mins(5), Duration::from_mins(10));

/// Files larger than this are shown by name and size, not by content.
const MAX_SHOWN_BYTES: u64 = (MAX_PREVIEW_BYTES / 4) as u64;

/// The `copy` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopyTool;

/// What `copy` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyInput {
    /// The file to copy: relative to the workspace, or absolute inside it.
    pub source: String,
    /// The file to create.
    pub destination: String,
    /// Whether to replace the destination if it exists.
    #[serde(default)]
    pub overwrite: bool,
}

/// What `copy` did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CopyOutput {
    /// The file copied, relative to the workspace.
    pub source: String,
    /// The copy, relative to the workspace.
    pub destination: String,
    /// Bytes copied.
    pub bytes: u64,
    /// Whether the destination is new.
    pub created: bool,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CopyProgress {
    /// Bytes copied so far.
    pub bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
}

impl Tool for CopyTool {
    type Input = CopyInput;
    type Output = CopyOutput;
    type Progress = CopyProgress;
    const NAME: &'static str = "copy";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Copy a file", DESCRIPTION)
            .effects(Effects::REPLACES)
            .deadline(DEADLINE)
            .groups(&["files"])
            .aliases(&["file_copy"])
            .foreign_names(&["copy_file"])
            .parameter_aliases(&[
                ParameterAlias::new("src", "source"),
                ParameterAlias::new("from", "source"),
                ParameterAlias::new("dest", "destination"),
                ParameterAlias::new("to", "destination"),
            ])
    }

    fn plan(&self, input: &CopyInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let source = cx.path(&input.source, "/source")?;
        let destination = cx.path(&input.destination, "/destination")?;
        refuse_same(&source, &destination)?;
        let effects = if input.overwrite {
            Effects::REPLACES
        } else {
            Effects::CHANGES
        };
        Ok(Plan::new(effects)
            .access(Access::read(source))
            .access(Access::write(destination)))
    }

    async fn run(
        &self,
        input: CopyInput,
        cx: CallContext<CopyProgress>,
    ) -> Result<CopyOutput, ToolError> {
        let way = CopyRoute::of(&input, &cx).await?;
        let (source, destination, total_bytes) = (way.source, way.destination, way.bytes);
        let started = Instant::now();
        let report = |bytes: u64| {
            let progress = Progress::of(bytes, Some(total_bytes), "copying")
                .elapsed(started.elapsed())
                .detail(CopyProgress { bytes, total_bytes });
            cx.report(progress);
        };
        let copy = CopyFile {
            overwrite: if input.overwrite {
                Overwrite::Replace
            } else {
                Overwrite::Never
            },
            copied: &report,
            cancel: cx.cancel(),
        };
        let written = cx
            .files()
            .copy(&source, &destination, copy)
            .await
            .map_err(|error| {
                if error.kind() == ErrorKind::AlreadyExists {
                    exists_already(&destination)
                } else {
                    error.into()
                }
            })?;
        report(written.bytes);
        Ok(CopyOutput {
            source: source.as_str().to_owned(),
            destination: destination.as_str().to_owned(),
            bytes: written.bytes,
            created: written.created,
        })
    }

    async fn preview(&self, input: &CopyInput, cx: PreviewContext) -> Result<Preview, ToolError> {
        let way = CopyRoute::of(input, &cx).await?;
        let replaced = way.replaced.as_ref().map_or(0, |stat| stat.size);
        if way.bytes.max(replaced) > MAX_SHOWN_BYTES {
            return Ok(way.in_words());
        }
        let before = match &way.replaced {
            Some(_) => Some(whole(&cx, &way.destination).await?.bytes),
            None => None,
        };
        let after = Some(whole(&cx, &way.source).await?.bytes);
        Ok(preview_of([
            shown(&cx, way.destination, before, after).await?
        ]))
    }

    fn render(&self, output: &CopyOutput) -> Vec<Content> {
        vec![Content::text(format!(
            "copied {} to {} ({} bytes)",
            one_line(&output.source),
            one_line(&output.destination),
            output.bytes
        ))]
    }
}

struct CopyRoute {
    source: WorkPath,
    destination: WorkPath,
    /// The size of the source.
    bytes: u64,
    /// What is at the destination now.
    replaced: Option<FileStat>,
}

impl CopyRoute {
    async fn of(input: &CopyInput, cx: &impl FileView) -> Result<Self, ToolError> {
        let source = cx.path(&input.source, "/source")?;
        let destination = cx.path(&input.destination, "/destination")?;
        let bytes = source_size(cx, &source).await?;
        let target = without_symlinks(cx, &destination, "/destination").await?;
        refuse_same(&source, &target.path)?;
        if target.stat.is_some() && !input.overwrite {
            return Err(exists_already(&destination));
        }
        Ok(Self {
            source,
            destination,
            bytes,
            replaced: target.stat,
        })
    }

    /// Describes a large copy by name and size: the approval binds the source's version.
    fn in_words(self) -> Preview {
        let source = one_line(self.source.as_str());
        let copy = format!("a copy of `{source}`, {} bytes", self.bytes);
        let (change, note) = match &self.replaced {
            Some(stat) => (
                FileChangeKind::Change,
                format!("{copy}, in place of {} bytes", stat.size),
            ),
            None => (FileChangeKind::Create, copy),
        };
        let diff = FileDiff {
            path: self.destination,
            change,
            text: String::new(),
            note: Some(note),
        };
        Preview {
            parts: vec![PreviewPart::Diff(diff)],
        }
    }
}

fn exists_already(destination: &WorkPath) -> ToolError {
    ToolError::new(
        ErrorKind::AlreadyExists,
        format!("`{}` exists already", one_line(destination.as_str())),
    )
    .at("/destination")
    .hint("choose another destination, or set `overwrite`")
}

fn refuse_same(source: &WorkPath, destination: &WorkPath) -> Result<(), ToolError> {
    if source == destination {
        return Err(
            ToolError::invalid_input("the source and the destination are the same file")
                .at("/destination")
                .hint("name another destination"),
        );
    }
    Ok(())
}

async fn source_size(cx: &impl FileView, source: &WorkPath) -> Result<u64, ToolError> {
    let resolved = without_symlinks(cx, source, "/source").await?;
    let stat = resolved.stat.ok_or_else(|| {
        ToolError::new(
            ErrorKind::NotFound,
            format!("`{}` does not exist", one_line(source.as_str())),
        )
        .at("/source")
        .hint("use `find` or `list` to see the files")
    })?;
    match stat.kind {
        FileKind::File => Ok(stat.size),
        FileKind::Directory | FileKind::Symlink | FileKind::Other => Err(ToolError::new(
            ErrorKind::NotRegularFile,
            format!(
                "`{}` is not a regular file but a {}",
                one_line(source.as_str()),
                stat.kind.as_str()
            ),
        )
        .at("/source")),
    }
}

/// Resolves a path and refuses it if a symlink is on the way.
async fn without_symlinks(
    cx: &impl FileView,
    path: &WorkPath,
    pointer: &str,
) -> Result<ResolvedPath, ToolError> {
    let resolved = cx.files().resolve(path).await?;
    if resolved.path != *path {
        return Err(ToolError::new(
            ErrorKind::Symlink,
            format!(
                "`{}` is, or lies behind, a symlink to `{}`",
                one_line(path.as_str()),
                one_line(resolved.path.as_str())
            ),
        )
        .at(pointer)
        .hint("name the file itself"));
    }
    Ok(resolved)
}
