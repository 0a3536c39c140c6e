//! `panic`: panics while it runs. The call must still end with an outcome.

use haft_contract::{
    CallContext, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `panic` tool.
#[derive(Debug, Clone, Copy)]
pub struct Panic;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What to say when it breaks.
    message: String,
}

/// What it would give.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {}

impl Tool for Panic {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "panic";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Panic",
            "Breaks with a message. Use it to test that a broken tool breaks nothing else; never use it for work.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, _: CallContext<NoProgress>) -> Result<Output, ToolError> {
        panic!("{}", input.message)
    }
}
