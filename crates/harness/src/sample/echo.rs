//! `echo`: returns its input. The smallest possible tool.

use haft_contract::{
    CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
    spec::ParameterAlias,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `echo` tool.
#[derive(Debug, Clone, Copy)]
pub struct Echo;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The text to give back.
    text: String,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The text.
    text: String,
}

impl Tool for Echo {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "echo";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Echo",
            "Gives back a text. Use it to see that calls arrive; do not use it to show something to a person.",
        )
        .effects(Effects::READ_ONLY)
        .groups(&["sample"])
        .aliases(&["say"])
        .parameter_aliases(&[ParameterAlias::new("message", "text")])
    }

    fn plan(&self, _: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, input: Input, _: CallContext<NoProgress>) -> Result<Output, ToolError> {
        Ok(Output { text: input.text })
    }

    fn render(&self, output: &Output) -> Vec<Content> {
        vec![Content::text(&*output.text)]
    }
}
