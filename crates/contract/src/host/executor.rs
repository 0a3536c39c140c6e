//! Where a started call runs: in this process, or on a worker. The path of a call is the same
//! either way; only this step differs.

use std::sync::Arc;

use crate::{
    context::CallContext,
    erased::{ErasedTool, ParsedInput, ToolReply},
    error::ToolError,
    future::BoxFuture,
    plan::SealedPlan,
    progress::NoProgress,
};

/// Runs a started call.
pub trait Executor: Send + Sync {
    /// Runs it and waits for the reply. Dropping the future must stop the work.
    fn execute(&self, work: Work) -> BoxFuture<'_, Result<ToolReply, ToolError>>;
}

/// A started call, ready to run.
pub struct Work {
    /// The tool.
    pub tool: Arc<dyn ErasedTool>,
    /// Its input, in the tool's own type.
    pub input: ParsedInput,
    /// The plan, with the canonical input for executors that run elsewhere.
    pub plan: Arc<SealedPlan>,
    /// Everything the call may use.
    pub context: CallContext<NoProgress>,
}
