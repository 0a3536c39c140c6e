//! In-memory approval questions, following `ApprovalStore`. A question expires by the time that
//! passes in the test's runtime after it was asked, or when a caller names a later moment.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use haft_contract::{
    BoxFuture, CallId, Principal, SessionId, TenantId,
    host::{
        AnswerError, Approval, ApprovalId, ApprovalQuestion, ApprovalState, ApprovalStore,
        GivenAnswer, GivenVerdict, LedgerError, LedgerErrorKind, Timestamp,
    },
};
use tokio::{sync::Notify, time::Instant};

use super::MemoryLedger;

/// The most questions kept; a test that asks more is broken.
const MAX_QUESTIONS: usize = 100_000;

/// Every question so far.
#[derive(Clone, Default)]
pub(super) struct Approvals(BTreeMap<ApprovalId, KeptQuestion>);

#[derive(Clone)]
struct KeptQuestion {
    approval: Approval,
    lapses: Instant,
    changed: Arc<Notify>,
}

impl KeptQuestion {
    /// Brings it up to date and returns it.
    fn at(&mut self, now: Option<Timestamp>) -> &mut Approval {
        let open = matches!(
            self.approval.state,
            ApprovalState::Pending | ApprovalState::Approved { .. }
        );
        let over =
            Instant::now() >= self.lapses || now.is_some_and(|now| now >= self.approval.expires);
        if open && over {
            self.turn(ApprovalState::Lapsed);
        }
        &mut self.approval
    }

    fn turn(&mut self, state: ApprovalState) {
        self.approval.state = state;
        self.changed.notify_waiters();
    }
}

impl Approvals {
    /// Uses up an approval for a call.
    pub(super) fn use_up(
        &mut self,
        id: ApprovalId,
        principal: &Principal,
        call: CallId,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let Some(kept) = self.0.get_mut(&id) else {
            return Err(conflict("there is no such approval"));
        };
        let approval = kept.at(Some(now));
        if !asks_for(&approval.principal, principal) {
            return Err(conflict("there is no such approval"));
        }
        let ApprovalState::Approved { .. } = approval.state else {
            let state = approval.state.as_str();
            return Err(conflict(&format!("the approval is {state}")));
        };
        kept.turn(ApprovalState::Used { by: call });
        Ok(())
    }

    fn of<'a>(&'a mut self, tenant: &'a TenantId) -> impl Iterator<Item = &'a mut KeptQuestion> {
        self.0
            .values_mut()
            .filter(move |kept| kept.approval.principal.tenant == *tenant)
    }

    fn find(&mut self, tenant: &TenantId, id: ApprovalId) -> Option<&mut KeptQuestion> {
        self.0
            .get_mut(&id)
            .filter(|kept| kept.approval.principal.tenant == *tenant)
    }

    fn ask(&mut self, question: ApprovalQuestion) -> Result<Approval, LedgerError> {
        let now = Some(question.asked);
        let mut open = 0;
        for kept in self.of(&question.principal.tenant) {
            let approval = kept.at(now);
            let asked_before = approval.digest == question.digest
                && asks_for(&approval.principal, &question.principal);
            match approval.state {
                ApprovalState::Pending | ApprovalState::Approved { .. } if asked_before => {
                    return Ok(approval.clone());
                }
                ApprovalState::Pending
                    if approval.principal.session == question.principal.session =>
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
        assert!(self.0.len() < MAX_QUESTIONS, "too many questions");
        let id = ApprovalId::new();
        let lapses = Instant::now() + question.expires.since(question.asked);
        let approval = Approval {
            id,
            call: question.call,
            principal: question.principal,
            digest: question.digest,
            form: Some(question.form),
            summary: question.summary,
            asked: question.asked,
            expires: question.expires,
            state: ApprovalState::Pending,
        };
        let kept = KeptQuestion {
            approval: approval.clone(),
            lapses,
            changed: Arc::default(),
        };
        match self.0.entry(id) {
            Entry::Vacant(entry) => entry.insert(kept),
            Entry::Occupied(_) => panic!("two questions with one id"),
        };
        Ok(approval)
    }

    fn answer(
        &mut self,
        tenant: &TenantId,
        id: ApprovalId,
        answer: GivenAnswer,
        now: Timestamp,
    ) -> Result<Approval, AnswerError> {
        let kept = self.find(tenant, id).ok_or(AnswerError::Unknown)?;
        let approval = kept.at(Some(now));
        approval.takes(&answer)?;
        let (by, at) = (answer.by.name(), now);
        kept.turn(match answer.verdict {
            GivenVerdict::Approve => ApprovalState::Approved { by, at },
            GivenVerdict::Refuse { reason } => ApprovalState::Refused { by, at, reason },
        });
        Ok(kept.approval.clone())
    }
}

impl ApprovalStore for MemoryLedger {
    fn ask(&self, question: ApprovalQuestion) -> BoxFuture<'_, Result<Approval, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            self.lock().approvals.ask(question)
        })
    }

    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Approval, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let changed = match self.lock().approvals.find(tenant, id) {
                Some(kept) => Arc::clone(&kept.changed),
                None => return Err(no_such_question()),
            };
            loop {
                // Listen before checking, so that an answer in between is not missed.
                let mut answered = std::pin::pin!(changed.notified());
                answered.as_mut().enable();
                let lapses = {
                    let mut state = self.lock();
                    let kept = state.approvals.find(tenant, id);
                    let kept = kept.ok_or_else(no_such_question)?;
                    if kept.at(None).state != ApprovalState::Pending {
                        return Ok(kept.approval.clone());
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

    fn answer<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        answer: GivenAnswer,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Approval, AnswerError>> {
        Box::pin(async move {
            self.reachable()?;
            self.lock().approvals.answer(tenant, id, answer, at)
        })
    }

    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.approvals.find(tenant, id);
            let kept = kept.ok_or_else(no_such_question)?;
            if kept.at(Some(at)).state == ApprovalState::Pending {
                kept.turn(ApprovalState::Withdrawn);
            }
            Ok(())
        })
    }

    fn end_session<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            state.grants.end_session(tenant, session);
            state.agent_questions.end_session(tenant, session, at);
            for kept in state.approvals.of(tenant) {
                let approval = kept.at(Some(at));
                let usable = matches!(
                    approval.state,
                    ApprovalState::Pending | ApprovalState::Approved { .. }
                );
                if usable && approval.principal.session == *session {
                    kept.turn(ApprovalState::Withdrawn);
                }
            }
            Ok(())
        })
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: ApprovalId,
    ) -> BoxFuture<'a, Result<Option<Approval>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let kept = state.approvals.find(tenant, id);
            Ok(kept.map(|kept| kept.at(None).clone()))
        })
    }

    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Approval>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut state = self.lock();
            let questions = state.approvals.of(tenant).map(|kept| kept.at(Some(now)));
            let pending = questions.filter(|approval| approval.state == ApprovalState::Pending);
            Ok(pending
                .take(limit)
                .map(|approval| approval.clone())
                .collect())
        })
    }
}

/// Whether two principals count as one for an approval.
pub(super) fn asks_for(one: &Principal, other: &Principal) -> bool {
    (&one.tenant, &one.user, &one.agent, &one.session)
        == (&other.tenant, &other.user, &other.agent, &other.session)
}

pub(super) fn no_such_question() -> LedgerError {
    LedgerError::new(LedgerErrorKind::NotFound, "there is no such question")
}

pub(super) fn conflict(message: &str) -> LedgerError {
    LedgerError::new(LedgerErrorKind::Conflict, message)
}
