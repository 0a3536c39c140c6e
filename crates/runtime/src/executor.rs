//! Runs calls in this process.

use haft_contract::{
    BoxFuture, ToolError,
    erased::ToolReply,
    host::{Executor, Work},
};
use tokio_util::task::AbortOnDropHandle;

/// Runs a call where it is.
///
/// A call that changes something gets a task of its own: a tool that computes without ever waiting
/// would otherwise keep the clock that must stop it from being looked at. Calls that only read are
/// run in the caller's task, because a task costs more than a small read does; what they compute at
/// length belongs on a back end's or the tool's own pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalExecutor;

impl Executor for LocalExecutor {
    fn execute(&self, work: Work) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        let Work {
            tool,
            input,
            context,
            plan,
        } = work;
        let running = async move { tool.run(input, context).await };
        if !plan.effects.is_mutating() {
            return Box::pin(running);
        }
        Box::pin(async move {
            // Dropping the handle, as a dropped call does, stops the task at its next wait.
            match AbortOnDropHandle::new(tokio::spawn(running)).await {
                Ok(reply) => reply,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(ToolError::new(
                        haft_contract::ErrorKind::Cancelled,
                        "the call was stopped",
                    )),
                },
            }
        })
    }
}
