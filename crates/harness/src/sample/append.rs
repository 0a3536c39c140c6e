//! `append`: adds a line to a file. A mutating tool whose effects a test can count.

use haft_contract::{
    Access, CallContext, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `append` tool.
#[derive(Debug, Clone, Copy)]
pub struct Append;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The file to append to, relative to the workspace.
    path: String,
    /// The line to add, without its line end.
    line: String,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Bytes added.
    bytes: u64,
    /// Whether the file is new.
    created: bool,
}

impl Tool for Append {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "append";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Append",
            "Adds a line to a file and creates the file when it is absent. Do not use it to change lines that exist.",
        )
        .effects(Effects::CHANGES)
        .groups(&["sample"])
    }

    fn plan(&self, input: &Input, cx: &PlanContext) -> Result<Plan, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::new(Effects::CHANGES).access(Access::write(path)))
    }

    async fn run(&self, input: Input, cx: CallContext<NoProgress>) -> Result<Output, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let line = format!("{}\n", input.line);
        let written = cx.files().append(&path, line.as_bytes()).await?;
        Ok(Output {
            bytes: written.bytes,
            created: written.created,
        })
    }
}
