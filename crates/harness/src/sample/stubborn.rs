//! `stubborn`: never checks its cancel token. Deadlines and cancels must still end it.

use std::time::Duration;

use haft_contract::{
    CallContext, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `stubborn` tool.
#[derive(Debug, Clone, Copy)]
pub struct Stubborn;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// How long it goes on, in milliseconds.
    ms: u64,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {}

impl Tool for Stubborn {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "stubborn";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Stubborn",
            "Goes on for a number of milliseconds and does not listen. Use it to test cancelling; never use it for work.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, _: CallContext<NoProgress>) -> Result<Output, ToolError> {
        tokio::time::sleep(Duration::from_millis(input.ms)).await;
        Ok(Output {})
    }
}
