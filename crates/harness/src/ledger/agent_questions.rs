//! Questions of agents in memory, following `AgentQuestionStore`. They lapse as approvals do here.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{
    BoxFuture, CallId, SessionId, TenantId,
    host::{
        AgentQuestionId, AgentQuestionState, AgentQuestionStore, Answerer, AskedQuestion,
        GivenReply, LedgerError, LedgerErrorKind, NewAgentQuestion, ReplyError, Timestamp,
    },
};
use tokio::{sync::Notify, time::Instant};

use super::{
    MemoryLedger,
    approvals::{asks_for, no_such_question},
};

/// Every question so far.
#[derive(Clone, Default)]
pub(super) struct AgentQuestions(BTreeMap<AgentQuestionId, KeptQuestion>);

#[derive(Clone)]
struct KeptQuestion {
    asked: AskedQuestion,
    words: [u8; 32],
    lapses: Instant,
    changed: Arc<Notify>,
}

impl KeptQuestion {
    /// Brings it up to date and returns it.
    fn at(&mut self, now: Option<Timestamp>) -> &mut AskedQuestion {
        let open = matches!(
            self.asked.state,
            AgentQuestionState::Pending | AgentQuestionState::Answered { received: None, .. }
        );
        let over =
            Instant::now() >= self.lapses || now.is_some_and(|now| now >= self.asked.expires);
        if open && over {
            self.turn(AgentQuestionState::Lapsed);
        }
        &mut self.asked
    }

    fn turn(&mut self, state: AgentQuestionState) {
        self.asked.state = state;
        self.changed.notify_waiters();
    }
}

impl AgentQuestions {
    fn find(&mut self, tenant: &TenantId, id: AgentQuestionId) -> Option<&mut KeptQuestion> {
        let found = self.0.get_mut(&id);
        found.filter(|kept| kept.asked.principal.tenant == *tenant)
    }

    fn ask(&mut self, question: NewAgentQuestion) -> Result<AskedQuestion, LedgerError> {
        let mut open = 0;
        for kept in self.0.values_mut() {
            let words = kept.words;
            let asked = kept.at(Some(question.asked));
            let same = words == question.words && asks_for(&asked.principal, &question.principal);
            match asked.state {
                AgentQuestionState::Pending
                | AgentQuestionState::Answered { received: None, .. }
                    if same =>
                {
                    return Ok(asked.clone());
                }
                AgentQuestionState::Pending
                    if asked.principal.tenant == question.principal.tenant
                        && asked.principal.session == question.principal.session =>
                {
                    open += 1;
                }
                _ => {}
            }
        }
        if open >= question.most_open {
            return Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("the session has {open} open questions; wait for some to be answered"),
            ));
        }
        let asked = AskedQuestion {
            id: AgentQuestionId::new(),
            call: question.call,
            principal: question.principal,
            question: question.question,
            asked: question.asked,
            expires: question.expires,
            state: AgentQuestionState::Pending,
        };
        let kept = KeptQuestion {
            asked: asked.clone(),
            words: question.words,
            lapses: Instant::now() + question.expires.since(question.asked),
            changed: Arc::default(),
        };
        self.0.insert(asked.id, kept);
        Ok(asked)
    }

    /// Withdraws the open questions of a session that has ended.
    pub(super) fn end_session(&mut self, tenant: &TenantId, session: &SessionId, at: Timestamp) {
        for kept in self.0.values_mut() {
            let asked = kept.at(Some(at));
            let theirs = asked.principal.tenant == *tenant && asked.principal.session == *session;
            if theirs && asked.state == AgentQuestionState::Pending {
                kept.turn(AgentQuestionState::Withdrawn);
            }
        }
    }
}

impl AgentQuestionStore for MemoryLedger {
    fn ask(&self, question: NewAgentQuestion) -> BoxFuture<'_, Result<AskedQuestion, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            self.lock().agent_questions.ask(question)
        })
    }

    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<AskedQuestion, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let changed = match self.lock().agent_questions.find(tenant, id) {
                Some(kept) => Arc::clone(&kept.changed),
                None => return Err(no_such_question()),
            };
            loop {
                // Listen before checking, so that an answer in between is not missed.
                let mut answered = std::pin::pin!(changed.notified());
                answered.as_mut().enable();
                let lapses = {
                    let mut state = self.lock();
                    let kept = state.agent_questions.find(tenant, id);
                    let kept = kept.ok_or_else(no_such_question)?;
                    if kept.at(None).state != AgentQuestionState::Pending {
                        return Ok(kept.asked.clone());
                    }
                    kept.lapses
                };
                tokio::select! {
                    () = answered => {}
                    () = tokio::time::sleep_until(lapses) => {}
                }
            }
        })
    }

    fn reply<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        reply: GivenReply,
        by: Answerer,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<AskedQuestion, ReplyError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.agent_questions.find(tenant, id);
            let kept = kept.ok_or(ReplyError::Unknown)?;
            let asked = kept.at(Some(at));
            let meant = asked.takes(&reply, &by)?;
            let state = asked.answered_with(meant, by.name(), at);
            kept.turn(state);
            Ok(kept.asked.clone())
        })
    }

    fn received<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        by: CallId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.agent_questions.find(tenant, id);
            let kept = kept.ok_or_else(no_such_question)?;
            if let AgentQuestionState::Answered { received, .. } = &mut kept.at(Some(at)).state {
                received.get_or_insert(by);
            }
            Ok(())
        })
    }

    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.agent_questions.find(tenant, id);
            let kept = kept.ok_or_else(no_such_question)?;
            if kept.at(Some(at)).state == AgentQuestionState::Pending {
                kept.turn(AgentQuestionState::Withdrawn);
            }
            Ok(())
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<Option<AskedQuestion>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.agent_questions.find(tenant, id);
            Ok(kept.map(|kept| kept.at(None).clone()))
        })
    }

    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<AskedQuestion>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let questions = state.agent_questions.0.values_mut();
            let questions = questions.map(|kept| kept.at(Some(now)).clone());
            let pending = questions.filter(|asked| {
                asked.principal.tenant == *tenant && asked.state == AgentQuestionState::Pending
            });
            Ok(pending.take(limit).collect())
        })
    }
}
