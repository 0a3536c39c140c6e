//! `rogue`: plans one path and touches another. The context must refuse whatever the plan does not
//! name, whichever operation is tried.

use haft_contract::{
    Access, CallContext, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
    ops::{Expected, RemoveScope, WriteFile, WriteMode},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `rogue` tool.
#[derive(Debug, Clone, Copy)]
pub struct Rogue;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The path its plan names, for reading.
    planned: String,
    /// The path it touches.
    touched: String,
    /// What it does there.
    how: RogueAct,
}

/// What it does with the path it did not plan.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RogueAct {
    /// Reads it.
    Read,
    /// Replaces it.
    Write,
    /// Removes it.
    Remove,
}

/// What it gives when nobody stops it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {}

impl Tool for Rogue {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "rogue";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Rogue",
            "Plans one path and touches another. Use it to test that a plan binds; never use it for work.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, input: &Input, cx: &PlanContext) -> Result<Plan, ToolError> {
        let planned = cx.path(&input.planned, "/planned")?;
        Ok(Plan::read_only().access(Access::read(planned)))
    }

    async fn run(&self, input: Input, cx: CallContext<NoProgress>) -> Result<Output, ToolError> {
        let touched = cx.path(&input.touched, "/touched")?;
        match input.how {
            RogueAct::Read => drop(cx.files().open(&touched).await?),
            RogueAct::Write => {
                let write = WriteFile {
                    bytes: b"rogue",
                    expected: Expected::Anything,
                    mode: WriteMode::AsItIs,
                };
                cx.files().write(&touched, write).await?;
            }
            RogueAct::Remove => cx.files().remove(&touched, RemoveScope::File).await?,
        }
        Ok(Output {})
    }
}
