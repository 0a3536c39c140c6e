//! Two approvers at once: both are asked, and the first answer counts.

use haft_contract::{
    Principal, SealedPlan,
    host::{AgentQuestionAnswer, AgentQuestionRequest, ApprovalAnswer, ApprovalRequest, Approver},
};
use haft_runtime::first_answer;

/// Asks two approvers in parallel, such as a terminal and a webhook. An approver that reaches
/// nobody, or leaves the answer to the record, leaves it to the other.
#[derive(Debug, Clone)]
pub struct FirstAnswer<A, B> {
    one: A,
    other: B,
}

impl<A, B> FirstAnswer<A, B> {
    /// Combines two approvers.
    pub fn new(one: A, other: B) -> Self {
        Self { one, other }
    }
}

impl<A: Approver, B: Approver> Approver for FirstAnswer<A, B> {
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        let one = self.one.nobody(principal, plan)?;
        self.other.nobody(principal, plan).map(|_| one)
    }

    async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
        first_answer(self.one.ask(request.clone()), self.other.ask(request)).await
    }

    fn nobody_replies(&self, principal: &Principal) -> Option<String> {
        let one = self.one.nobody_replies(principal)?;
        self.other.nobody_replies(principal).map(|_| one)
    }

    async fn put(&self, request: AgentQuestionRequest) -> AgentQuestionAnswer {
        let mut one = std::pin::pin!(self.one.put(request.clone()));
        let mut other = std::pin::pin!(self.other.put(request));
        let (first, second) = tokio::select! {
            said = &mut one => (said, &mut other as &mut (dyn Future<Output = _> + Send + Unpin)),
            said = &mut other => (said, &mut one as _),
        };
        if let AgentQuestionAnswer::Said { .. } = first {
            return first;
        }
        match (first, second.await) {
            (
                AgentQuestionAnswer::Elsewhere,
                AgentQuestionAnswer::NobodyThere { .. } | AgentQuestionAnswer::Failed { .. },
            ) => AgentQuestionAnswer::Elsewhere,
            (_, second) => second,
        }
    }
}
