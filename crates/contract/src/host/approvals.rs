//! Questions to people as durable records: asked once, answered once, used once.
//!
//! A record binds one answer to one canonical plan ([`PlanDigest`]) of one principal, until it
//! expires. It outlives the process that asked: a question stays open across a restart, and the
//! same call asked again finds it, or its answer. The answer is used up in the transaction that
//! records the call's start, so no crash and no race can use it twice.

use std::sync::Arc;

use serde_json::Value;

use super::{LedgerError, Timestamp};
use crate::{
    call::CallId,
    future::BoxFuture,
    identity::{Principal, Scope, SessionId, TenantId},
    plan::PlanDigest,
    uuid_id::uuid_id,
};

/// The scope a credential needs to answer questions.
pub const APPROVE_SCOPE: &str = "approve";

uuid_id!(
    /// Identifies a question. Time-ordered.
    ApprovalId
);

/// Keeps questions and their answers.
pub trait ApprovalStore: Send + Sync {
    /// Records a question durably, or finds an existing one that asks the same: the same plan for
    /// the same tenant, user, agent and session, and not used, refused, withdrawn or lapsed. Fails
    /// with [`super::LedgerErrorKind::LimitExceeded`] when the session has
    /// [`ApprovalQuestion::most_open`] open questions.
    fn ask(&self, question: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>>;

    /// Waits until the question is no longer pending, whoever answers it, in any process. Holds no
    /// thread. A question that lapses counts as answered.
    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>>;

    /// Answers a question, durably. Only the first answer counts.
    fn answer<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        answer: GivenAnswer,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>>;

    /// Withdraws a question because its call was cancelled or no longer needs an answer. An answer
    /// already given stays.
    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;

    /// Withdraws every open question of a session that has ended, every unused answer, and the
    /// grants made for that session.
    fn end_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;

    /// One question, if the tenant has it.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>>;

    /// The open questions of a tenant, oldest first.
    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>>;
}

/// A question to be asked.
#[derive(Debug, Clone)]
pub struct ApprovalQuestion {
    /// The call that waits.
    pub call: CallId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What the answer binds: SHA-256 of [`ApprovalQuestion::form`].
    pub digest: PlanDigest,
    /// The canonical plan with its preview. People are shown this and nothing else.
    pub form: Arc<Value>,
    /// A one-line summary, for lists.
    pub summary: String,
    /// When it is asked.
    pub asked: Timestamp,
    /// When it lapses.
    pub expires: Timestamp,
    /// The most open questions the session may have.
    pub most_open: usize,
}

/// A question as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// The question.
    pub id: ApprovalId,
    /// The call that first asked it.
    pub call: CallId,
    /// Who asked.
    pub principal: Arc<Principal>,
    /// What the answer binds.
    pub digest: PlanDigest,
    /// The canonical plan with its preview; absent when it contains a secret, which is not stored.
    /// Such a question can be answered only in the process that asked it.
    pub form: Option<Arc<Value>>,
    /// A one-line summary.
    pub summary: String,
    /// When it was asked.
    pub asked: Timestamp,
    /// When it lapses.
    pub expires: Timestamp,
    /// Its current state.
    pub state: ApprovalState,
}

impl Approval {
    /// Whether the question accepts an answer in its current state. Every store uses these checks
    /// and no others, in this order, so that strangers learn nothing about questions that are not
    /// theirs.
    pub fn takes(&self, answer: &GivenAnswer) -> Result<(), AnswerError> {
        if !answer.by.may_answer(&self.principal) {
            return Err(AnswerError::NotYours);
        }
        if self.state != ApprovalState::Pending {
            let state = self.state.clone();
            return Err(AnswerError::NotOpen { state });
        }
        if answer.digest != self.digest {
            return Err(AnswerError::OtherPlan);
        }
        let sees_it_where_asked = match &answer.by {
            Answerer::Person { place, .. } => *place == AnswerPlace::Here,
            Answerer::Credential(_) => false,
        };
        if self.form.is_none() && !sees_it_where_asked {
            return Err(AnswerError::NotShown);
        }
        Ok(())
    }
}

/// The state of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalState {
    /// Nobody has answered.
    Pending,
    /// Somebody said yes; no call has used it yet.
    Approved {
        /// Who said so.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// Somebody said no.
    Refused {
        /// Who said so.
        by: String,
        /// When.
        at: Timestamp,
        /// Why, in their words.
        reason: Option<String>,
    },
    /// Nobody answered in time.
    Lapsed,
    /// Its call was cancelled, or its session ended.
    Withdrawn,
    /// A call was started with its approval.
    Used {
        /// The call.
        by: CallId,
    },
}

impl ApprovalState {
    /// The word used in JSON, in the ledger and in output.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved { .. } => "approved",
            Self::Refused { .. } => "refused",
            Self::Lapsed => "lapsed",
            Self::Withdrawn => "withdrawn",
            Self::Used { .. } => "used",
        }
    }
}

/// An answer that somebody gives.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenAnswer {
    /// Yes or no.
    pub verdict: GivenVerdict,
    /// The digest of what the person was shown.
    pub digest: PlanDigest,
    /// Who answers.
    pub by: Answerer,
}

/// Yes or no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenVerdict {
    /// Yes, once.
    Approve,
    /// No.
    Refuse {
        /// Why, in their words, for the model.
        reason: Option<String>,
    },
}

/// Who answers a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answerer {
    /// A person the host deals with directly: at the terminal, or in its own interface.
    Person {
        /// Their name, for the record.
        name: String,
        /// Whether they see the question in the process that asks. If so, they see all of it, even
        /// what the record leaves out.
        place: AnswerPlace,
    },
    /// The holder of a credential.
    Credential(Arc<Principal>),
}

/// Where a person sees a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPlace {
    /// In the process that asks.
    Here,
    /// From the record.
    Elsewhere,
}

impl Answerer {
    /// The name for the record.
    pub fn name(&self) -> String {
        match self {
            Self::Person { name, .. } => name.clone(),
            Self::Credential(principal) => format!("{}/{}", principal.user, principal.agent),
        }
    }

    /// Whether they may answer a question of this principal. Nobody answers their own: not the
    /// agent that asks, none of its ancestors or descendants, and nobody in its session.
    pub fn may_answer(&self, asker: &Principal) -> bool {
        match self {
            Self::Person { .. } => true,
            Self::Credential(answerer) => {
                let has_scope = answerer
                    .scopes
                    .iter()
                    .any(|scope: &Scope| scope.as_str() == APPROVE_SCOPE);
                let related = answerer.agent == asker.agent
                    || asker.ancestors.contains(&answerer.agent)
                    || answerer.ancestors.contains(&asker.agent)
                    || answerer.session == asker.session;
                has_scope && !related && answerer.tenant == asker.tenant
            }
        }
    }
}

/// Why an answer was not accepted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AnswerError {
    /// There is no such question, or it belongs to another tenant.
    #[error("there is no such question")]
    Unknown,
    /// It is no longer open.
    #[error("the question is already {}", .state.as_str())]
    NotOpen {
        /// Its current state.
        state: ApprovalState,
    },
    /// The one who asked, or somebody related to them, cannot answer.
    #[error("nobody answers their own question, and a credential needs the scope `approve`")]
    NotYours,
    /// The digest is that of another plan.
    #[error("the answer is for a different plan")]
    OtherPlan,
    /// The record cannot show the whole question.
    #[error(
        "the call contains a secret, which the record does not keep, so it cannot be shown in full \
         here; \
         answer where it was asked"
    )]
    NotShown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LedgerError),
}
