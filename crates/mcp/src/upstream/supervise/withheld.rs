//! A known tool that nobody has accepted in its current form.

use std::sync::Arc;

use haft_contract::{
    CallContext, ErrorKind, Plan, PlanContext, ToolError, ToolName, ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    future::BoxFuture,
    progress::NoProgress,
};
use serde_json::Value;

/// Replaces a tool until it is accepted. It cannot run: it has no connection to the server.
pub(super) struct WithheldTool {
    tool: Arc<dyn ErasedTool>,
    why: WithheldReason,
}

impl WithheldTool {
    pub(super) fn new(tool: Arc<dyn ErasedTool>, why: WithheldReason) -> Self {
        Self { tool, why }
    }

    fn refusal(&self) -> ToolError {
        ToolError::new(ErrorKind::Denied, &self.why.reason).hint(&self.why.hint)
    }
}

impl ErasedTool for WithheldTool {
    fn name(&self) -> &ToolName {
        self.tool.name()
    }

    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn input_schema(&self) -> Value {
        self.tool.input_schema()
    }

    fn output_schema(&self) -> Value {
        self.tool.output_schema()
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        self.tool.program_digest()
    }

    fn withheld(&self) -> Option<WithheldReason> {
        Some(self.why.clone())
    }

    fn parse(&self, _input: &Value) -> Result<ParsedInput, ToolError> {
        Err(self.refusal())
    }

    fn plan(&self, _input: &ParsedInput, _cx: &PlanContext) -> Result<Plan, ToolError> {
        Err(self.refusal())
    }

    fn run(
        &self,
        _input: ParsedInput,
        _cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(std::future::ready(Err(self.refusal())))
    }
}
