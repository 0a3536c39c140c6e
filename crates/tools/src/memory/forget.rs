//! `memory_forget`: removes a text that was kept.

use haft_contract::{
    CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
    spec::ParameterAlias,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parse_id;

const DESCRIPTION: &str = "\
Removes a text that this agent kept, for good. Use it for what is wrong \
or no longer wanted, not for what is only old.";

/// The `memory_forget` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryForgetTool;

/// What `memory_forget` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryForgetInput {
    /// The id that `memory_save` or `memory_search` named.
    pub id: String,
}

/// What `memory_forget` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryForgetOutput {
    /// The id of what is gone.
    pub forgotten: String,
}

impl Tool for MemoryForgetTool {
    type Input = MemoryForgetInput;
    type Output = MemoryForgetOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "memory_forget";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Forget what was kept", DESCRIPTION)
            .effects(Effects::REPLACES)
            .groups(&["memory"])
            .parameter_aliases(&[ParameterAlias::new("memory_id", "id")])
    }

    fn plan(&self, input: &MemoryForgetInput, _: &PlanContext) -> Result<Plan, ToolError> {
        parse_id(&input.id)?;
        Ok(Plan::new(Effects::REPLACES))
    }

    async fn run(
        &self,
        input: MemoryForgetInput,
        cx: CallContext<NoProgress>,
    ) -> Result<MemoryForgetOutput, ToolError> {
        let id = parse_id(&input.id)?;
        cx.memory().forget(id).await?;
        Ok(MemoryForgetOutput {
            forgotten: id.to_string(),
        })
    }

    fn render(&self, output: &MemoryForgetOutput) -> Vec<Content> {
        vec![Content::text(format!("[forgot {}]", output.forgotten))]
    }
}
