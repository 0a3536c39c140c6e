//! The input a change is computed from. Running a call and previewing it use the same input, so
//! that what a person was shown is what happens.

use haft_contract::{
    CallContext, ErrorKind, ToolError, WorkPath,
    context::PreviewContext,
    ops::{FileKind, FileOps, FileStat},
    preview::{Preview, PreviewPart},
};
use tokio_util::sync::CancellationToken;

use super::whole::{WholeFile, read_whole};
use crate::{
    change::{FileChange, ShownChange},
    text::{display::one_line, heavy::by_size},
};

/// The context a change is computed in: a call, or a preview of it.
pub(crate) trait FileView: Sync {
    /// Parses a path parameter.
    fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError>;
    /// The files the plan names.
    fn files(&self) -> &dyn FileOps;
    /// Fires when nobody waits for the answer any more.
    fn cancel(&self) -> &CancellationToken;
}

impl<P: Send + Sync> FileView for CallContext<P> {
    fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError> {
        self.path(text, pointer)
    }

    fn files(&self) -> &dyn FileOps {
        self.files()
    }

    fn cancel(&self) -> &CancellationToken {
        self.cancel()
    }
}

impl FileView for PreviewContext {
    fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError> {
        self.path(text, pointer)
    }

    fn files(&self) -> &dyn FileOps {
        &*self.files
    }

    fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }
}

/// Returns what is at a file's path, if anything. Refuses a directory.
pub(super) async fn present(
    cx: &impl FileView,
    path: &WorkPath,
    pointer: &str,
) -> Result<Option<FileStat>, ToolError> {
    match cx.files().stat(path).await {
        Ok(stat) if stat.kind == FileKind::Directory => Err(ToolError::new(
            ErrorKind::NotRegularFile,
            format!("`{}` is a directory", one_line(path.as_str())),
        )
        .at(pointer)
        .hint("give the path of a file in it")),
        Ok(stat) => Ok(Some(stat)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ToolError::from(error).at(pointer)),
    }
}

/// Reads all of an existing file.
pub(super) async fn whole(cx: &impl FileView, path: &WorkPath) -> Result<WholeFile, ToolError> {
    let reader = cx.files().open(path).await?;
    read_whole(&*reader, path).await
}

/// Shows how one file changes, off the async thread if the file is large.
pub(super) async fn shown(
    cx: &impl FileView,
    path: WorkPath,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
) -> Result<ShownChange, ToolError> {
    let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    by_size(size(&before) + size(&after), cx.cancel(), move |_| {
        let change = FileChange {
            path: &path,
            to: None,
            before: before.as_deref(),
            after: after.as_deref(),
        };
        Ok(change.show())
    })
    .await
}

pub(super) fn preview_of(changes: impl IntoIterator<Item = ShownChange>) -> Preview {
    let part = |shown: ShownChange| PreviewPart::Diff(shown.diff);
    Preview {
        parts: changes.into_iter().map(part).collect(),
    }
}
