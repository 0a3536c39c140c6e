//! Asking a person. The question carries the very plan that will run, and its digest.

use std::{future::Future, sync::Arc};

use serde_json::Value;

use super::{ApprovalId, Decision, GrantProposal, GrantRequest, Timestamp};
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
    /// Says that there is nobody to ask, with what would let the call pass; `None` where somebody
    /// may answer. It is looked at before anything is shown or recorded, so that a host without
    /// people denies at once and leaves no open question behind.
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        let _ = (principal, plan);
        None
    }

    /// Asks about one plan.
    fn ask(&self, request: ApprovalRequest) -> impl Future<Output = ApprovalAnswer> + Send;
}

/// The question.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The question's id in the record, by which it can be answered from elsewhere too.
    pub id: ApprovalId,
    /// The call that waits.
    pub call: CallId,
    /// Who asks for it.
    pub principal: Arc<Principal>,
    /// What will happen if the answer is yes. Show all of it, escaped.
    pub plan: Arc<SealedPlan>,
    /// The canonical plan with its preview. Draw what is shown from this and nothing else.
    pub form: Arc<Value>,
    /// What the answer binds: SHA-256 of [`ApprovalRequest::form`].
    pub digest: PlanDigest,
    /// Why a person is asked.
    pub decision: Decision,
    /// Rules that would let calls like this one pass, narrowest first.
    pub proposals: Vec<GrantProposal>,
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
        /// What is allowed from now on, if the person said more than *once*. It is checked
        /// against this very call before it is kept.
        grant: Option<GrantRequest>,
    },
    /// No.
    Refused {
        /// Who said so.
        by: String,
        /// Why, in their words, for the model.
        reason: Option<String>,
    },
    /// Not answered here: the question stays open, to be answered from elsewhere.
    Elsewhere,
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
            grant: None,
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
