//! `memory_save`: keeps a text beyond the session.

use haft_contract::{
    CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec, memory::MAX_MEMORY_BYTES, spec::ParameterAlias,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DESCRIPTION: &str = "\
Keeps a short text for later sessions of this agent with this user: a preference, a decision, a \
fact that took long to find.
One thing at a time, in its own words. No secrets: what looks like one is left out. Not for what is \
in the workspace, and not for steps of this session (use `todo`).";

/// The `memory_save` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemorySaveTool;

/// What `memory_save` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySaveInput {
    /// What to keep, at most 4 KB.
    pub text: String,
}

/// What `memory_save` returns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemorySaveOutput {
    /// The id it is found by.
    pub id: String,
    /// Whether something that looked like a secret was left out of the text.
    pub shortened: bool,
}

impl Tool for MemorySaveTool {
    type Input = MemorySaveInput;
    type Output = MemorySaveOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "memory_save";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Keep a text for later sessions", DESCRIPTION)
            .effects(Effects::CHANGES)
            .groups(&["memory"])
            .aliases(&["save_memory"])
            .parameter_aliases(&[
                ParameterAlias::new("fact", "text"),
                ParameterAlias::new("content", "text"),
                ParameterAlias::new("memory", "text"),
            ])
    }

    fn plan(&self, input: &MemorySaveInput, _: &PlanContext) -> Result<Plan, ToolError> {
        if input.text.trim().is_empty() {
            return Err(ToolError::invalid_input("the text is empty")
                .at("/text")
                .hint("say what to keep"));
        }
        if input.text.len() > MAX_MEMORY_BYTES {
            let message = format!(
                "the text has {} bytes; at most {MAX_MEMORY_BYTES} are kept",
                input.text.len()
            );
            return Err(ToolError::new(ErrorKind::LimitExceeded, message)
                .at("/text")
                .hint("keep what matters in a few lines, and the rest in a file"));
        }
        Ok(Plan::new(Effects::CHANGES))
    }

    async fn run(
        &self,
        input: MemorySaveInput,
        cx: CallContext<NoProgress>,
    ) -> Result<MemorySaveOutput, ToolError> {
        let saved = cx.memory().save(&input.text).await?;
        Ok(MemorySaveOutput {
            id: saved.id.to_string(),
            shortened: saved.text != input.text,
        })
    }

    fn render(&self, output: &MemorySaveOutput) -> Vec<Content> {
        let mut text = format!("[kept as {}", output.id);
        if output.shortened {
            text.push_str("; something that looked like a secret was left out");
        }
        text.push(']');
        vec![Content::text(text)]
    }
}
