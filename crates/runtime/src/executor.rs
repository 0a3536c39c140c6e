//! Runs calls in this process.

use haft_contract::{
    BoxFuture, ToolError,
    erased::ToolReply,
    host::{Executor, Work},
};

/// Runs a call where it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl Executor for LocalExecutor {
    fn execute(&self, work: Work) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let Work {
                tool,
                input,
                context,
                plan: _,
            } = work;
            tool.run(input, context).await
        })
    }
}
