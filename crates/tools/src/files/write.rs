//! `write`: creates a file or replaces all of it, atomically.
//!
//! Must not overwrite a change made since this session last read the file: the version it saw must
//! still be there.

use haft_contract::{
    Access, CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    context::PreviewContext,
    ops::{Expected, WriteFile, WriteMode},
    preview::Preview,
    spec::{ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    file_view::{present, preview_of, shown, whole},
    seen::refuse_if_changed,
};
use crate::text::display::one_line;

const DESCRIPTION: &str = "\
Writes a whole file: creates it, with missing parent directories, or replaces everything in it.
Use it for new files and complete rewrites. To change part of a file use `edit`, to change several \
files at once use `patch`; do not use `echo >` or `tee` in `bash`.
The write is atomic. It is refused when the file changed since you last read it: read it again, or \
set `force` if its present content does not matter.";

/// The `write` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteTool;

/// What `write` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteInput {
    /// The file to write: relative to the workspace, or absolute inside it.
    pub path: String,
    /// The complete new content of the file.
    pub content: String,
    /// Whether to write even if the file changed since you last read it.
    #[serde(default)]
    pub force: bool,
}

/// What `write` did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WriteOutput {
    /// The file, relative to the workspace.
    pub path: String,
    /// Bytes written.
    pub bytes: u64,
    /// Whether the file is new.
    pub created: bool,
}

/// What to do instead of inserting at the number of a line.
const INSERT: &str = "use `edit`: replace the line before the place by itself and the new lines";

impl Tool for WriteTool {
    type Input = WriteInput;
    type Output = WriteOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "write";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Write a file", DESCRIPTION)
            .effects(Effects::REPLACES)
            .groups(&["files"])
            .aliases(&["write_file", "Write"])
            .foreign_calls(&[
                ForeignCall::new("text_editor").when("command", "write"),
                ForeignCall::new("str_replace_editor").when("command", "create"),
                ForeignCall::new("str_replace_based_edit_tool").when("command", "create"),
                ForeignCall::new("text_editor")
                    .when("command", "insert")
                    .instead(INSERT),
                ForeignCall::new("str_replace_editor")
                    .when("command", "insert")
                    .instead(INSERT),
                ForeignCall::new("str_replace_based_edit_tool")
                    .when("command", "insert")
                    .instead(INSERT),
                ForeignCall::new("create_directory").instead(
                    "`write` makes the directories of the file it writes; `mkdir -p` in `bash` makes an empty one",
                ),
            ])
            .parameter_aliases(&[
                ParameterAlias::new("file_path", "path"),
                ParameterAlias::new("target_file", "path"),
                ParameterAlias::new("contents", "content"),
                ParameterAlias::new("file_text", "content"),
            ])
    }

    fn plan(&self, input: &WriteInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::new(Effects::REPLACES).access(Access::write(path)))
    }

    async fn run(
        &self,
        input: WriteInput,
        cx: CallContext<NoProgress>,
    ) -> Result<WriteOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let present = present(&cx, &path, "/path").await?;
        if let (Some(present), false) = (&present, input.force) {
            let hint = "read it again and decide again, or set `force` to replace it anyway";
            refuse_if_changed(&cx, &path, present, hint).await?;
        }
        let expected = match &present {
            _ if input.force => Expected::Anything,
            Some(stat) => Expected::Version(&stat.version),
            None => Expected::Absent,
        };
        let write = WriteFile {
            bytes: input.content.as_bytes(),
            expected,
            mode: WriteMode::AsItIs,
        };
        let written = cx.files().write(&path, write).await?;
        Ok(WriteOutput {
            path: path.as_str().to_owned(),
            bytes: written.bytes,
            created: written.created,
        })
    }

    async fn preview(&self, input: &WriteInput, cx: PreviewContext) -> Result<Preview, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let before = match present(&cx, &path, "/path").await? {
            Some(_) => Some(whole(&cx, &path).await?.bytes),
            None => None,
        };
        let after = Some(input.content.clone().into_bytes());
        Ok(preview_of([shown(&cx, path, before, after).await?]))
    }

    fn render(&self, output: &WriteOutput) -> Vec<Content> {
        let what = if output.created {
            "created"
        } else {
            "replaced"
        };
        let path = one_line(&output.path);
        vec![Content::text(format!(
            "{what} {path} ({} bytes)",
            output.bytes
        ))]
    }
}
