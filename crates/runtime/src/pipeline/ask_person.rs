//! The person a running tool may ask something. The call's clock is held meanwhile.
//!
//! This is the only way from a tool to the approver, and what comes back is text: no digest of a plan
//! goes out, and no answer is an approval. The question is on record before anybody is asked, and counts
//! as answered only once the answer is. Read next: `await_answer.rs`, which does the same for plans.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    BoxFuture, ErrorKind, ProviderId, ToolError,
    agent_question::{AgentQuestion, PersonReply},
    context::{AskPerson, RunLimits as _},
    host::{
        AgentQuestionAnswer, AgentQuestionRequest, AgentQuestionState, AgentQuestionStore,
        AnswerPlace, Answerer, AskedQuestion, Durability, LedgerErrorKind, NewAgentQuestion,
        ReplyError,
    },
    outcome::DeniedBy,
    surface::NextStep,
};
use serde_json::json;

use super::reports::RunReports;
use crate::{
    contained_approver::CannotAsk, digest::digest_of, guard::Guard,
    pending_questions::QuestionGuard,
};

/// The pause after the record could not be read for an answer; it grows to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What the model can do where nobody answers.
const WITHOUT_AN_ANSWER: &str =
    "decide yourself and say in your reply what you assumed, or ask in your reply";

/// The person behind one call.
pub(super) struct PersonOfCall {
    guard: Arc<Guard>,
    reports: Arc<RunReports>,
}

/// How a question ended.
enum QuestionEnd {
    Reply(PersonReply),
    Nobody(String),
    Failed(String),
    Late,
    Withdrawn,
    Cancelled,
    Broken(String),
}

impl PersonOfCall {
    pub(super) fn new(guard: &Arc<Guard>, reports: &Arc<RunReports>) -> Self {
        Self {
            guard: Arc::clone(guard),
            reports: Arc::clone(reports),
        }
    }

    /// Whether the call may ask at all, before anything is recorded.
    fn may_ask(&self) -> Result<(), ToolError> {
        let Guard {
            plan,
            principal,
            workspace,
            recording,
            ..
        } = &*self.guard;
        if recording.is_settled() {
            return Err(ToolError::new(ErrorKind::Cancelled, "the call has ended"));
        }
        if plan.tool().provider != ProviderId::builtin() {
            let message = "only Haft's own tool `clarify` asks a person";
            return Err(ToolError::new(ErrorKind::NotInPlan, message));
        }
        if principal.is_unattended() {
            return Err(self.nobody("no person attends this session"));
        }
        match workspace.approver.cannot_put(principal) {
            Some(CannotAsk::Nobody(reason)) => Err(self.nobody(&reason)),
            Some(CannotAsk::Failed(reason)) => Err(self.failed(&reason)),
            None => Ok(()),
        }
    }

    fn nobody(&self, reason: &str) -> ToolError {
        let _ = self.reports.not_asked.set(DeniedBy::NobodyToAsk);
        let message = format!("nobody is there to answer: {reason}");
        ToolError::new(ErrorKind::Denied, message).hint(WITHOUT_AN_ANSWER)
    }

    fn failed(&self, reason: &str) -> ToolError {
        let _ = self.reports.not_asked.set(DeniedBy::Approver);
        let message = format!("nobody could be asked, because the approver failed: {reason}");
        ToolError::new(ErrorKind::Denied, message).hint(WITHOUT_AN_ANSWER)
    }

    async fn put(&self, question: AgentQuestion) -> Result<PersonReply, ToolError> {
        self.may_ask()?;
        let (engine, call) = (&self.guard.engine, self.guard.recording.call());
        let now = engine.clock.now();
        let words = json!({
            "question": question.text(),
            "options": question.options(),
            "allow_other": question.allows_other(),
        });
        let asked = NewAgentQuestion {
            call,
            principal: Arc::clone(&self.guard.principal),
            words: digest_of(&words).0,
            question: Arc::new(question),
            asked: now,
            expires: now.after(engine.limits.approval_wait),
            most_open: engine.limits.open_approvals,
        };
        let (found, waits) = QuestionGuard::ask_for_agent(engine, asked)
            .await
            .map_err(|error| not_asked(error.kind(), &error.to_string()))?;
        // A waiting call is on record before anybody is asked, so that it can be listed.
        let listed = self.guard.recording.commit(Durability::Queued).await;
        listed.map_err(|error| not_asked(error.kind(), &error.to_string()))?;
        let tenant = &self.guard.principal.tenant;
        let store = engine.ledger.agent_questions();
        let id = found.id;
        let heard = match from_state(found.state.clone()) {
            Some(heard) => heard,
            None => self.wait(&*store, &waits, found).await,
        };
        match heard {
            QuestionEnd::Reply(reply) => {
                waits.answered();
                let received = store.received(tenant, id, call, engine.clock.now());
                if let Err(error) = received.await {
                    tracing::warn!(%error, %id, "the same question would get the same answer");
                }
                Ok(reply)
            }
            QuestionEnd::Late | QuestionEnd::Withdrawn => {
                waits.answered();
                let message = "nobody answered in time";
                Err(ToolError::new(ErrorKind::TimedOut, message).hint(WITHOUT_AN_ANSWER))
            }
            QuestionEnd::Nobody(reason) => {
                waits.give_up().await;
                Err(self.nobody(&reason))
            }
            QuestionEnd::Failed(reason) => {
                waits.give_up().await;
                Err(self.failed(&reason))
            }
            QuestionEnd::Cancelled => {
                waits.give_up().await;
                let message = "the call was cancelled before anybody answered";
                Err(ToolError::new(ErrorKind::Cancelled, message))
            }
            QuestionEnd::Broken(why) => {
                waits.give_up().await;
                let message = format!("the answer cannot be recorded, so it does not count: {why}");
                Err(unavailable(message))
            }
        }
    }

    /// Waits for whichever ends the question first.
    async fn wait(
        &self,
        store: &dyn AgentQuestionStore,
        waits: &QuestionGuard,
        found: AskedQuestion,
    ) -> QuestionEnd {
        let left = found.expires.since(self.guard.engine.clock.now());
        tokio::select! {
            biased;
            () = self.reports.cancel().cancelled() => QuestionEnd::Cancelled,
            heard = self.elsewhere(store, &found) => heard,
            heard = Box::pin(self.here(store, waits, &found)) => heard,
            () = tokio::time::sleep(left) => QuestionEnd::Late,
        }
    }

    /// The answer in the record, from anybody, in any process.
    async fn elsewhere(
        &self,
        store: &dyn AgentQuestionStore,
        asked: &AskedQuestion,
    ) -> QuestionEnd {
        let tenant = &self.guard.principal.tenant;
        let mut pause = FIRST_PAUSE;
        loop {
            match store.answered(tenant, asked.id).await {
                Ok(now) => return from_state(now.state).unwrap_or(QuestionEnd::Late),
                // A record that is busy for a moment does not end the wait; the question's expiry does.
                Err(error) if error.kind() == LedgerErrorKind::Unavailable => {
                    tracing::warn!(%error, "the record could not be asked for an answer");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return QuestionEnd::Broken(error.to_string()),
            }
        }
    }

    /// Asks the local approver, one call at a time, until what it says is on record.
    async fn here(
        &self,
        store: &dyn AgentQuestionStore,
        waits: &QuestionGuard,
        asked: &AskedQuestion,
    ) -> QuestionEnd {
        let Guard {
            workspace,
            principal,
            engine,
            recording,
            ..
        } = &*self.guard;
        let _turn = waits.turn().lock().await;
        // The call that had the turn before may have got the answer.
        if let Ok(Some(now)) = store.get(&principal.tenant, asked.id).await
            && let Some(heard) = from_state(now.state)
        {
            return heard;
        }
        let said = workspace.approver.put(AgentQuestionRequest {
            id: asked.id,
            call: recording.call(),
            principal: Arc::clone(principal),
            question: Arc::clone(&asked.question),
            expires: asked.expires,
        });
        let (by, reply) = match said.await {
            AgentQuestionAnswer::Said { by, reply } => (by, reply),
            AgentQuestionAnswer::Elsewhere => return std::future::pending().await,
            AgentQuestionAnswer::NobodyThere { reason } => return QuestionEnd::Nobody(reason),
            AgentQuestionAnswer::Failed { reason } => return QuestionEnd::Failed(reason),
        };
        let by = Answerer::Person {
            name: by,
            place: AnswerPlace::Here,
        };
        let (tenant, now) = (&principal.tenant, engine.clock.now());
        match store.reply(tenant, asked.id, reply, by, now).await {
            Ok(now) => from_state(now.state).unwrap_or(QuestionEnd::Late),
            Err(ReplyError::NotOpen { state }) => from_state(state).unwrap_or(QuestionEnd::Late),
            // Whoever shows it checks what is offered. Where that was left out, others may still answer.
            Err(ReplyError::NotOffered) => std::future::pending().await,
            Err(error) => QuestionEnd::Broken(error.to_string()),
        }
    }
}

impl AskPerson for PersonOfCall {
    fn ask(&self, question: AgentQuestion) -> BoxFuture<'_, Result<PersonReply, ToolError>> {
        Box::pin(async move {
            let _held = self.reports.clock.hold();
            self.put(question).await
        })
    }
}

/// What a recorded state means to a waiting call; `None` while the question is open.
fn from_state(state: AgentQuestionState) -> Option<QuestionEnd> {
    match state {
        AgentQuestionState::Pending => None,
        AgentQuestionState::Answered { reply, .. } => Some(QuestionEnd::Reply(reply)),
        AgentQuestionState::Lapsed => Some(QuestionEnd::Late),
        AgentQuestionState::Withdrawn => Some(QuestionEnd::Withdrawn),
    }
}

fn not_asked(kind: LedgerErrorKind, why: &str) -> ToolError {
    if kind == LedgerErrorKind::LimitExceeded {
        return ToolError::new(ErrorKind::LimitExceeded, why.to_owned())
            .hint("do not ask again before they are answered");
    }
    unavailable(format!(
        "the question cannot be recorded, so Haft asks nobody: {why}"
    ))
}

fn unavailable(message: String) -> ToolError {
    ToolError::new(ErrorKind::Unavailable, message).hint(NextStep::CheckRecord.text())
}
