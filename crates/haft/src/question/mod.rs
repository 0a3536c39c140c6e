//! A question to a person, as a value: whoever has it may answer it. It comes from a turn whose call
//! waits, or by its id from the record, in this process or another.
//!
//! The record binds the answer to the plan that was shown, and only the first answer counts (ADR
//! 0015). What *always* keeps is checked against the very call that asked (ADR 0016). Read next:
//! `recorded.rs` for questions by id.

mod error;
mod recorded;

use std::time::Duration;

use haft_contract::{
    CallId, ModelCallId, PlanDigest, Principal,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalAnswer, ApprovalId, ApprovalState,
        Clock as _, GivenAnswer, GivenVerdict, GrantProposal, GrantRequest, GrantScope,
        GrantedWorkspace, Ledger as _, Timestamp,
    },
};
use haft_host::{
    asked_again,
    question::{DrawingContext, RoomForText, draw},
};
use haft_runtime::SystemClock;
use serde_json::Value;
use tokio::sync::oneshot;

pub use self::error::QuestionError;
use crate::{asker::AskedRequest, embedded::Haft};

/// How long an answer may take to be on record.
const RECORDED_WITHIN: Duration = Duration::from_secs(10);

/// Where a standing approval holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlwaysScope {
    /// In the conversation that asked, in every workspace.
    Session,
    /// In the workspace, for every agent.
    Workspace,
    /// For the agent, in every workspace.
    Agent,
}

/// A question to a person about one plan.
///
/// Dropping it answers nothing: it stays open, to be answered elsewhere by its id, for as long as its
/// call waits.
pub struct Question {
    haft: Haft,
    asked: Approval,
    /// Who answers.
    by: String,
    why: Option<String>,
    model_call: Option<ModelCallId>,
    /// The way to the call that waits, if it waits in this process; and what it proposes.
    here: Option<WaitingHere>,
}

/// The end of a question that its call waits on.
struct WaitingHere {
    answer: oneshot::Sender<ApprovalAnswer>,
    proposals: Vec<GrantProposal>,
}

impl Question {
    /// A question that a turn's call asks.
    pub(crate) fn asked(haft: &Haft, asked: AskedRequest, model_call: Option<ModelCallId>) -> Self {
        let AskedRequest { request, answer } = asked;
        Self {
            haft: haft.clone(),
            asked: Approval {
                id: request.id,
                call: request.call,
                principal: request.principal,
                digest: request.digest,
                form: Some(request.form),
                summary: request.plan.tool().to_string(),
                asked: SystemClock.now(),
                expires: request.expires,
                state: ApprovalState::Pending,
            },
            by: haft.principal().user.to_string(),
            why: Some(request.decision.reason.clone()),
            model_call,
            here: Some(WaitingHere {
                answer,
                proposals: request.proposals,
            }),
        }
    }

    /// Its id in the record. As text it can be stored and sent; [`Haft::question`] opens it again.
    pub fn id(&self) -> ApprovalId {
        self.asked.id
    }

    /// The call that asked it first.
    pub fn call(&self) -> CallId {
        self.asked.call
    }

    /// The model provider's own id of the call, if the question comes from a turn.
    pub fn model_call(&self) -> Option<&str> {
        self.model_call.as_ref().map(ModelCallId::as_str)
    }

    /// Who asks.
    pub fn principal(&self) -> &Principal {
        &self.asked.principal
    }

    /// What the answer binds: the SHA-256 of [`form`](Self::form).
    pub fn digest(&self) -> PlanDigest {
        self.asked.digest
    }

    /// The canonical plan with its preview, for a program that draws it itself. `None` if it holds a
    /// secret, which the record does not keep.
    pub fn form(&self) -> Option<&Value> {
        self.asked.form.as_deref()
    }

    /// When it lapses.
    pub fn expires(&self) -> Timestamp {
        self.asked.expires
    }

    /// Why a person is asked.
    pub fn reason(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// The whole question as a person reads it: what happens, who asks and why. Nothing in it hides.
    pub fn text(&self) -> Result<String, QuestionError> {
        let form = self.form().ok_or(AnswerError::NotShown)?;
        let cx = DrawingContext {
            why: self.reason(),
            home: None,
            room: RoomForText::Enough,
        };
        let drawn = draw(form, self.digest(), cx);
        drawn
            .map(|drawn| drawn.text())
            .map_err(|_| QuestionError::Changed)
    }

    /// Names the person who answers, for the record. It is the user of this Haft unless set.
    #[must_use]
    pub fn answered_by(mut self, name: impl Into<String>) -> Self {
        self.by = name.into();
        self
    }

    /// Yes, to exactly this plan, once.
    pub async fn approve(self) -> Result<(), QuestionError> {
        self.give(GivenVerdict::Approve, None).await
    }

    /// No; the model reads why.
    pub async fn refuse(self, why: impl Into<String>) -> Result<(), QuestionError> {
        let reason = Some(why.into()).filter(|why| !why.trim().is_empty());
        self.give(GivenVerdict::Refuse { reason }, None).await
    }

    /// Yes, and to calls like it from now on: exactly what [`grant`](Self::grant) shows. A grant that
    /// does not fit the call is not kept, and the call's result says so.
    pub async fn always(self, scope: AlwaysScope) -> Result<GrantRequest, QuestionError> {
        let wish = self.grant(scope).await?;
        self.always_with(wish.clone()).await?;
        Ok(wish)
    }

    /// The same with a rule, a place and an end of the caller's choice. From another process only
    /// rules that are [proposed](Self::proposals) can be kept.
    pub async fn always_with(self, wish: GrantRequest) -> Result<(), QuestionError> {
        self.give(GivenVerdict::Approve, Some(wish)).await
    }

    /// What [`always`](Self::always) would keep: the narrowest rule that covers the call. Show it
    /// before it is kept.
    pub async fn grant(&self, scope: AlwaysScope) -> Result<GrantRequest, QuestionError> {
        let narrowest = self.proposals().await?.into_iter().next();
        Ok(GrantRequest {
            rules: narrowest.ok_or(QuestionError::NotProposed)?.rules,
            scope: self.scope(scope)?,
            until: None,
            uses: None,
        })
    }

    /// The rules that would let calls like this one pass, narrowest first. Away from the call, it is
    /// planned again to find them, and there are none if the rules have changed since.
    pub async fn proposals(&self) -> Result<Vec<GrantProposal>, QuestionError> {
        if let Some(here) = &self.here {
            return Ok(here.proposals.clone());
        }
        let at = self.workspace()?.id;
        let found = asked_again::proposals_in(self.haft.runtime(), at, &self.asked).await;
        found.map_err(QuestionError::Host)
    }

    fn scope(&self, scope: AlwaysScope) -> Result<GrantScope, QuestionError> {
        Ok(match scope {
            AlwaysScope::Session => GrantScope::Session(self.principal().session.clone()),
            AlwaysScope::Workspace => GrantScope::Project(self.workspace()?),
            AlwaysScope::Agent => GrantScope::Agent(self.principal().agent.clone()),
        })
    }

    fn workspace(&self) -> Result<GrantedWorkspace, QuestionError> {
        asked_again::workspace(&self.asked).ok_or(QuestionError::Answer(AnswerError::NotShown))
    }
}

impl Question {
    /// Gives the answer to the call that waits here, or else to the record.
    async fn give(
        mut self,
        verdict: GivenVerdict,
        wish: Option<GrantRequest>,
    ) -> Result<(), QuestionError> {
        if let Some(here) = self.here.take() {
            let answer = match verdict.clone() {
                GivenVerdict::Approve => ApprovalAnswer::Approved {
                    by: self.by.clone(),
                    digest: self.digest(),
                    grant: wish.clone(),
                },
                GivenVerdict::Refuse { reason } => ApprovalAnswer::Refused {
                    by: self.by.clone(),
                    reason,
                },
            };
            if here.answer.send(answer).is_ok() {
                return self.until_recorded(&verdict).await;
            }
        }
        // The call that would check the rule does not wait here, or left in between.
        if let Some(wish) = &wish {
            let proposals = self.proposals().await?;
            if !proposals.iter().any(|one| one.rules == wish.rules) {
                return Err(QuestionError::NotProposed);
            }
        }
        self.put_on_record(verdict, wish).await
    }

    /// Waits until the call that waits here has recorded the answer, and checks that it counts.
    async fn until_recorded(&self, given: &GivenVerdict) -> Result<(), QuestionError> {
        let approvals = self.haft.ledger().approvals();
        let tenant = &self.principal().tenant;
        let answered = approvals.answered(tenant, self.id());
        let answered = tokio::time::timeout(RECORDED_WITHIN, answered).await;
        let answered = answered.map_err(|_| QuestionError::NotRecorded)?;
        let state = answered.map_err(AnswerError::Store)?.state;
        let counts = match (given, &state) {
            (GivenVerdict::Approve, ApprovalState::Approved { by, .. })
            | (GivenVerdict::Refuse { .. }, ApprovalState::Refused { by, .. }) => *by == self.by,
            // The call may have started with it already.
            (GivenVerdict::Approve, ApprovalState::Used { by }) => *by == self.call(),
            _ => false,
        };
        if counts {
            return Ok(());
        }
        Err(AnswerError::NotOpen { state }.into())
    }

    /// Answers in the record. Only then stores a rule, so that an answer that came too late grants
    /// nothing.
    async fn put_on_record(
        self,
        verdict: GivenVerdict,
        wish: Option<GrantRequest>,
    ) -> Result<(), QuestionError> {
        if let (GivenVerdict::Approve, Some(form)) = (&verdict, self.form())
            && haft_runtime::digest_of(form) != self.digest()
        {
            return Err(QuestionError::Changed);
        }
        let given = GivenAnswer {
            verdict,
            digest: self.digest(),
            by: Answerer::Person {
                name: self.by.clone(),
                place: AnswerPlace::Elsewhere,
            },
        };
        let (ledger, tenant) = (self.haft.ledger(), &self.principal().tenant);
        let now = SystemClock.now();
        let approvals = ledger.approvals();
        let answered = approvals.answer(tenant, self.id(), given, now);
        let answered = tokio::time::timeout(RECORDED_WITHIN, answered).await;
        answered.map_err(|_| QuestionError::NotRecorded)??;
        let Some(wish) = wish else {
            return Ok(());
        };
        let grants = ledger.grants();
        for grant in wish.grants(self.principal(), &self.by, now, self.call()) {
            let kept = tokio::time::timeout(RECORDED_WITHIN, grants.add(grant)).await;
            let kept = kept.map_err(|_| QuestionError::NotRecorded)?;
            kept.map_err(AnswerError::Store)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("id", &self.id())
            .field("call", &self.call())
            .finish_non_exhaustive()
    }
}
