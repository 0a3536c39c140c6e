//! Questions of agents as durable records: asked, answered once, and received once.
//!
//! They are kept like approvals and are not among them: an id of one kind names nothing in the other
//! store, no digest of a plan is involved, and there is no yes. A question stays open when its asker
//! dies; the same question asked again in the session finds it, or its answer.

use std::sync::Arc;

use super::{Answerer, LedgerError, Timestamp};
use crate::{
    agent_question::{AgentQuestion, PersonReply},
    call::CallId,
    future::BoxFuture,
    identity::{Principal, TenantId},
    uuid_id::uuid_id,
};

uuid_id!(
    /// Identifies a question of an agent. Time-ordered.
    AgentQuestionId
);

/// Keeps questions of agents and the answers to them.
pub trait AgentQuestionStore: Send + Sync {
    /// Records a question durably, or finds one with the same words of the same tenant, user, agent
    /// and session whose answer nobody has received. Fails with
    /// [`super::LedgerErrorKind::LimitExceeded`] when the session has
    /// [`NewAgentQuestion::most_open`] open ones.
    fn ask(&self, question: NewAgentQuestion) -> BoxFuture<'_, Result<AskedQuestion, LedgerError>>;

    /// Waits until the question is no longer pending, whoever answers it, in any process. Holds no
    /// thread. A question that lapses counts as answered.
    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<AskedQuestion, LedgerError>>;

    /// Answers a question, durably. Only the first answer counts.
    fn reply<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        reply: GivenReply,
        by: Answerer,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<AskedQuestion, ReplyError>>;

    /// Notes that a call has received the answer, so that the same question asked later is asked anew.
    /// Those that wait for it already receive it too.
    fn received<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        by: CallId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;

    /// Withdraws a question because its call was cancelled. An answer already given stays.
    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;

    /// One question, if the tenant has it.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<Option<AskedQuestion>, LedgerError>>;

    /// The open questions of a tenant, oldest first.
    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<AskedQuestion>, LedgerError>>;
}

/// A question to be asked.
#[derive(Debug, Clone)]
pub struct NewAgentQuestion {
    /// The call that waits.
    pub call: CallId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What is asked.
    pub question: Arc<AgentQuestion>,
    /// SHA-256 of its words, by which the same question is found again.
    pub words: [u8; 32],
    /// When it is asked.
    pub asked: Timestamp,
    /// When it lapses.
    pub expires: Timestamp,
    /// The most open questions the session may have.
    pub most_open: usize,
}

/// A question as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedQuestion {
    /// The question.
    pub id: AgentQuestionId,
    /// The call that first asked it.
    pub call: CallId,
    /// Who asked.
    pub principal: Arc<Principal>,
    /// What was asked. Secrets are taken out of it on its way into the record.
    pub question: Arc<AgentQuestion>,
    /// When it was asked.
    pub asked: Timestamp,
    /// When it lapses.
    pub expires: Timestamp,
    /// Its current state.
    pub state: AgentQuestionState,
}

impl AskedQuestion {
    /// What a reply would say, or why it is not taken. Every store uses these checks and no others, in
    /// this order, so that strangers learn nothing about questions that are not theirs.
    pub fn takes(&self, reply: &GivenReply, by: &Answerer) -> Result<GivenReply, ReplyError> {
        if !by.may_answer(&self.principal) {
            return Err(ReplyError::NotYours);
        }
        if self.state != AgentQuestionState::Pending {
            let state = self.state.clone();
            return Err(ReplyError::NotOpen { state });
        }
        match reply {
            GivenReply::Decline => Ok(GivenReply::Decline),
            GivenReply::Text(text) => match self.question.meant(text) {
                Some(meant) => Ok(GivenReply::Text(meant)),
                None => Err(ReplyError::NotOffered),
            },
        }
    }

    /// The state of a question that was answered like this.
    pub fn answered_with(
        &self,
        reply: GivenReply,
        by: String,
        at: Timestamp,
    ) -> AgentQuestionState {
        let reply = match reply {
            GivenReply::Decline => PersonReply::Declined { by },
            GivenReply::Text(text) => PersonReply::Said {
                chosen: self.question.chosen(&text),
                text,
                by,
            },
        };
        AgentQuestionState::Answered {
            reply,
            at,
            received: None,
        }
    }
}

/// The state of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentQuestionState {
    /// Nobody has answered.
    Pending,
    /// Somebody has.
    Answered {
        /// What they said.
        reply: PersonReply,
        /// When.
        at: Timestamp,
        /// The call that received the answer first.
        received: Option<CallId>,
    },
    /// Nobody answered in time, or nobody received the answer in time.
    Lapsed,
    /// Its call was cancelled, or its session ended.
    Withdrawn,
}

impl AgentQuestionState {
    /// The word used in JSON and in output.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Answered { .. } => "answered",
            Self::Lapsed => "lapsed",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A reply that somebody gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenReply {
    /// These words, or the number of an offered answer.
    Text(String),
    /// No answer.
    Decline,
}

/// Why a reply was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplyError {
    /// No agent asks it, or another tenant's does.
    #[error("no agent asks a question with this id")]
    Unknown,
    /// It is no longer open.
    #[error("the question is already {}", .state.as_str())]
    NotOpen {
        /// Its current state.
        state: AgentQuestionState,
    },
    /// The one who asked, or somebody related to them, cannot answer.
    #[error("nobody answers their own question, and a credential needs the scope `approve`")]
    NotYours,
    /// It is none of the answers that are offered, and no other is taken.
    #[error("it is none of the answers that are offered")]
    NotOffered,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LedgerError),
}
