//! The approver of a host where there is no person to ask: everything that would ask is denied,
//! with that reason.

use haft_contract::{
    Principal, SealedPlan,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
};

/// Denies because nobody can be asked.
#[derive(Debug, Clone)]
pub struct NobodyToAsk {
    what_to_do: String,
}

impl NobodyToAsk {
    /// An approver that tells the caller what would let the call pass.
    pub fn new(what_to_do: impl Into<String>) -> Self {
        Self {
            what_to_do: what_to_do.into(),
        }
    }
}

impl Default for NobodyToAsk {
    fn default() -> Self {
        Self::new("add a rule that allows this call, or give the runtime an approver")
    }
}

impl Approver for NobodyToAsk {
    fn nobody(&self, _: &Principal, _: &SealedPlan) -> Option<String> {
        Some(self.what_to_do.clone())
    }

    async fn ask(&self, _: ApprovalRequest) -> ApprovalAnswer {
        ApprovalAnswer::NobodyThere {
            reason: self.what_to_do.clone(),
        }
    }
}
