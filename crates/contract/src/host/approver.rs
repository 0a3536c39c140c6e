//! Asking a person. The question carries the exact plan that will run, and its digest.

use std::{future::Future, sync::Arc};

use serde_json::Value;

use super::{
    AgentQuestionId, ApprovalId, Decision, GivenReply, GrantProposal, GrantRequest, Timestamp,
};
use crate::{
    agent_question::AgentQuestion,
    call::CallId,
    identity::Principal,
    plan::{PlanDigest, SealedPlan},
};

/// Shows a plan to a person and waits for the answer.
///
/// The runtime bounds the wait and drops the future when the question lapses or the call is
/// cancelled, so an implementation needs no timer.
pub trait Approver: Send + Sync + 'static {
    /// Says that there is nobody to ask, and what would let the call pass; `None` if somebody may
    /// answer. Checked before anything is shown or recorded, so that a host without people denies
    /// at once and leaves no open question behind.
    fn nobody(&self, principal: &Principal, plan: &SealedPlan) -> Option<String> {
        let _ = (principal, plan);
        None
    }

    /// Asks about one plan.
    fn ask(&self, request: ApprovalRequest) -> impl Future<Output = ApprovalAnswer> + Send;

    /// Says that nobody answers an agent's questions here; `None` if somebody may. An approver that
    /// does not know them has nobody.
    fn nobody_replies(&self, principal: &Principal) -> Option<String> {
        let _ = principal;
        Some(NOT_FOR_QUESTIONS.to_owned())
    }

    /// Puts an agent's question to a person. It must be shown in a form that nobody takes for an
    /// approval, and its answer is text: it never allows anything. Bounded and dropped by the runtime
    /// as [`Approver::ask`] is.
    fn put(
        &self,
        request: AgentQuestionRequest,
    ) -> impl Future<Output = AgentQuestionAnswer> + Send {
        let _ = request;
        let reason = NOT_FOR_QUESTIONS.to_owned();
        std::future::ready(AgentQuestionAnswer::NobodyThere { reason })
    }
}

/// Why an approver that does not know questions of agents answers none.
const NOT_FOR_QUESTIONS: &str = "this host asks about approvals only";

/// A question of an agent to a person.
#[derive(Debug, Clone)]
pub struct AgentQuestionRequest {
    /// Its id in the record, which lets others answer it from elsewhere.
    pub id: AgentQuestionId,
    /// The call that waits.
    pub call: CallId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What is asked.
    pub question: Arc<AgentQuestion>,
    /// When it lapses.
    pub expires: Timestamp,
}

/// What a person says to an agent's question, or why they say nothing. There is no yes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentQuestionAnswer {
    /// What they said.
    Said {
        /// Who said so.
        by: String,
        /// Their words, or that they give no answer.
        reply: GivenReply,
    },
    /// Not answered here: the question stays open for an answer from elsewhere.
    Elsewhere,
    /// There is nobody to ask.
    NobodyThere {
        /// Why not.
        reason: String,
    },
    /// Asking failed. The runtime says so for an approver that panicked.
    Failed {
        /// Why, without internals: a model reads it.
        reason: String,
    },
}

/// A question to a person.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The question's id in the record, which lets others answer it from elsewhere.
    pub id: ApprovalId,
    /// The call that waits.
    pub call: CallId,
    /// Who asks for it.
    pub principal: Arc<Principal>,
    /// What will happen if the answer is yes. Show all of it, escaped.
    pub plan: Arc<SealedPlan>,
    /// The canonical plan with its preview. Show this and nothing else.
    pub form: Arc<Value>,
    /// What the answer binds: SHA-256 of [`ApprovalRequest::form`].
    pub digest: PlanDigest,
    /// Why a person is asked.
    pub decision: Arc<Decision>,
    /// Rules that would let calls like this one pass, narrowest first.
    pub proposals: Vec<GrantProposal>,
    /// When the question lapses.
    pub expires: Timestamp,
}

/// A person's answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, to the plan with this digest, once.
    Approved {
        /// Who said so.
        by: String,
        /// The digest of the plan that was shown.
        digest: PlanDigest,
        /// What to allow from now on, if the person said more than *once*. It is checked against
        /// this very call before it is kept.
        grant: Option<GrantRequest>,
    },
    /// No.
    Refused {
        /// Who said so.
        by: String,
        /// Why, in their words, for the model.
        reason: Option<String>,
    },
    /// Not answered here: the question stays open for an answer from elsewhere.
    Elsewhere,
    /// There is nobody to ask.
    NobodyThere {
        /// Why not, and what would let the call pass.
        reason: String,
    },
    /// Asking failed. The runtime says so for an approver that panicked; the call is denied.
    Failed {
        /// Why, without internals: a model reads it.
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
