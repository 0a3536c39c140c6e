//! Asking a person. The question carries the very plan that will run, and its digest.

use std::{future::Future, sync::Arc};

use super::{Decision, Timestamp};
use crate::{
    call::CallId,
    identity::Principal,
    plan::{PlanDigest, SealedPlan},
};

/// Puts a plan before a person and waits for the answer.
///
/// The runtime bounds the wait and drops the future when the question lapses or the call is
/// cancelled, so an implementation needs no timer of its own.
pub trait Approver: Send + Sync + 'static {
    /// Asks about one plan.
    fn ask(&self, request: ApprovalRequest) -> impl Future<Output = ApprovalAnswer> + Send;
}

/// The question.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The call that waits.
    pub call: CallId,
    /// Who asks for it.
    pub principal: Arc<Principal>,
    /// What will happen if the answer is yes. Show all of it, escaped.
    pub plan: Arc<SealedPlan>,
    /// What the answer binds.
    pub digest: PlanDigest,
    /// Why a person is asked.
    pub decision: Decision,
    /// When the question lapses.
    pub expires: Timestamp,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, to the plan with this digest, once.
    Approved {
        /// Who said so.
        by: String,
        /// The digest of the plan that was shown.
        digest: PlanDigest,
    },
    /// No.
    Refused {
        /// Who said so.
        by: String,
        /// Why, in their words, for the model.
        reason: Option<String>,
    },
    /// There is nobody to ask.
    NobodyThere {
        /// Why not, and what would let the call pass.
        reason: String,
    },
    /// Nobody answered in time.
    Expired,
}

impl ApprovalRequest {
    /// Yes, to exactly the plan in this request.
    pub fn approve(&self, by: impl Into<String>) -> ApprovalAnswer {
        ApprovalAnswer::Approved {
            by: by.into(),
            digest: self.digest,
        }
    }

    /// No.
    pub fn refuse(&self, by: impl Into<String>, reason: Option<String>) -> ApprovalAnswer {
        ApprovalAnswer::Refused {
            by: by.into(),
            reason,
        }
    }
}
