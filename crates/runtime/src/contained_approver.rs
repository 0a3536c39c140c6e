//! An approver whose panic is an answer: that it failed. No call passes because of it, and no call
//! ends as a fault in Haft.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::FutureExt as _;
use haft_contract::{
    BoxFuture, Principal, SealedPlan,
    erased::ErasedApprover,
    host::{AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest},
};

/// What is recorded and told; the detail is the host's and stays in its log.
const PANICKED: &str = "it panicked";

/// Why a question cannot be put.
pub(crate) enum CannotAsk {
    /// There is nobody to ask, and this would let the call pass.
    Nobody(String),
    /// The approver failed, for this reason.
    Failed(String),
}

/// The approver of a workspace.
#[derive(Clone)]
pub(crate) struct ContainedApprover(Arc<dyn ErasedApprover>);

impl ContainedApprover {
    pub(crate) fn new(approver: Arc<dyn ErasedApprover>) -> Self {
        Self(approver)
    }

    /// Whether it cannot be asked about a plan.
    pub(crate) fn cannot_ask(&self, principal: &Principal, plan: &SealedPlan) -> Option<CannotAsk> {
        catch_unwind(AssertUnwindSafe(|| self.0.nobody(principal, plan))).map_or_else(
            |_| Some(CannotAsk::Failed(panicked())),
            |nobody| nobody.map(CannotAsk::Nobody),
        )
    }

    /// Asks about a plan.
    pub(crate) async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        let asked = AssertUnwindSafe(async { self.0.ask(request).await });
        asked
            .catch_unwind()
            .await
            .unwrap_or_else(|_| ApprovalAnswer::Failed { reason: panicked() })
    }

    /// Whether it cannot be asked what an agent wants to know.
    pub(crate) fn cannot_put(&self, principal: &Principal) -> Option<CannotAsk> {
        catch_unwind(AssertUnwindSafe(|| self.0.nobody_replies(principal))).map_or_else(
            |_| Some(CannotAsk::Failed(panicked())),
            |nobody| nobody.map(CannotAsk::Nobody),
        )
    }

    /// Puts an agent's question.
    pub(crate) async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        let put: BoxFuture<'_, _> = Box::pin(async { self.0.put(request).await });
        AssertUnwindSafe(put)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| AgentQuestionAnswer::Failed { reason: panicked() })
    }
}

/// The panic itself was printed or logged by the program's own panic hook.
fn panicked() -> String {
    tracing::error!("the approver panicked");
    PANICKED.to_owned()
}
