//! What agents ask: rows of the same table, signed in the same way and waited for in the same way, of a
//! kind of their own. A row is read either as an approval or as this, by its signed kind, and an answer
//! here is words.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, TenantId,
    agent_question::{AgentQuestion, MAX_REPLY_BYTES, PersonReply},
    host::{
        AgentQuestionId, AgentQuestionState, AgentQuestionStore, Answerer, ApprovalId,
        AskedQuestion, GivenReply, LedgerError, NewAgentQuestion, ReplyError, Timestamp,
    },
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Approvals,
    ask::room,
    asks_for, no_such_question,
    row::{Columns, by_id},
};
use crate::{
    change::{Change, ChangeContext},
    convert,
    queue::unavailable,
    reading::{failed, row_limit},
    redact::Redactor,
    store::{Connection, Lock, Row, Scope, StoreError, values},
};

/// The kind of these rows.
const KIND: &str = "question";

const PENDING: &str = "pending";
const ANSWERED: &str = "answered";
const DECLINED: &str = "declined";
const WITHDRAWN: &str = "withdrawn";

/// The longest beginning of a question that is kept as its summary.
const MAX_SUMMARY_BYTES: usize = 200;

/// What is asked, as stored in the column `form`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredQuestion {
    question: String,
    options: Vec<String>,
    allow_other: bool,
}

impl StoredQuestion {
    /// The question without secrets; fails where what is left is none.
    fn clean(question: &AgentQuestion, redactor: &Redactor) -> Option<Self> {
        let options = question.options().iter();
        let stored = Self {
            question: redactor.text(question.text()).into_owned(),
            options: options
                .map(|option| redactor.text(option).into_owned())
                .collect(),
            allow_other: question.allows_other(),
        };
        stored.read().is_some().then_some(stored)
    }

    fn read(&self) -> Option<AgentQuestion> {
        AgentQuestion::new(&self.question, &self.options, Some(self.allow_other)).ok()
    }
}

impl Columns {
    fn of_question(asked: &NewAgentQuestion, redactor: &Redactor) -> Option<Self> {
        let principal = &asked.principal;
        let form = StoredQuestion::clean(&asked.question, redactor)?;
        let mut summary = form.question.clone();
        summary.truncate(summary.floor_char_boundary(MAX_SUMMARY_BYTES));
        Some(Self {
            tenant: principal.tenant.to_string(),
            id: AgentQuestionId::new().to_string(),
            kind: KIND.to_owned(),
            call: asked.call.as_uuid().as_bytes().to_vec(),
            user: principal.user.to_string(),
            agent: principal.agent.to_string(),
            session: principal.session.to_string(),
            principal: serde_json::to_string(&convert::stored_principal(principal)).ok()?,
            digest: asked.words.to_vec(),
            form: Some(serde_json::to_string(&form).ok()?),
            summary,
            asked_at: asked.asked.0,
            expires_at: asked.expires.0,
            state: PENDING.to_owned(),
            answered_by: None,
            answered_at: None,
            reason: None,
            used_by: None,
        })
    }

    /// The question at a moment; `None` if the row cannot be understood, or is an approval.
    fn agent_question(&self, now: Timestamp) -> Option<AskedQuestion> {
        if self.kind != KIND {
            return None;
        }
        let form: StoredQuestion = serde_json::from_str(self.form.as_deref()?).ok()?;
        let question = form.read()?;
        let state = self.question_state(&question, now)?;
        Some(AskedQuestion {
            id: AgentQuestionId::parse(&self.id)?,
            call: call_id(&self.call)?,
            principal: Arc::new(self.principal()?),
            question: Arc::new(question),
            asked: Timestamp(self.asked_at),
            expires: Timestamp(self.expires_at),
            state,
        })
    }

    fn question_state(
        &self,
        question: &AgentQuestion,
        now: Timestamp,
    ) -> Option<AgentQuestionState> {
        let received = match self.used_by.as_deref() {
            Some(call) => Some(call_id(call)?),
            None => None,
        };
        let lapsed = now.0 >= self.expires_at && received.is_none();
        Some(match self.state.as_str() {
            PENDING | ANSWERED | DECLINED if lapsed => AgentQuestionState::Lapsed,
            PENDING => AgentQuestionState::Pending,
            WITHDRAWN => AgentQuestionState::Withdrawn,
            ANSWERED => {
                let text = self.reason.clone()?;
                let reply = PersonReply::Said {
                    chosen: question.chosen(&text),
                    text,
                    by: self.answered_by.clone()?,
                };
                self.answered(reply, received)?
            }
            DECLINED => {
                let by = self.answered_by.clone()?;
                self.answered(PersonReply::Declined { by }, received)?
            }
            _ => return None,
        })
    }

    fn answered(&self, reply: PersonReply, received: Option<CallId>) -> Option<AgentQuestionState> {
        Some(AgentQuestionState::Answered {
            reply,
            at: Timestamp(self.answered_at?),
            received,
        })
    }
}

fn call_id(bytes: &[u8]) -> Option<CallId> {
    Some(Uuid::from_slice(bytes).ok()?.into())
}

/// A row and its question at a moment; `None` if it is unsigned, an approval, or not understood.
fn understood(
    row: &Row,
    key: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(Columns, AskedQuestion)>, StoreError> {
    let columns = Columns::read(row, key)?;
    Ok(columns.and_then(|columns| {
        let asked = columns.agent_question(now)?;
        Some((columns, asked))
    }))
}

async fn load(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    tenant: &TenantId,
    id: AgentQuestionId,
    now: Timestamp,
) -> Result<Option<(Columns, AskedQuestion)>, StoreError> {
    match by_id(connection, tenant, &id.to_string()).await? {
        Some(row) => understood(&row, key, now),
        None => Ok(None),
    }
}

/// Writes a row whose state was `from`, and notes that its waiters should look.
async fn write(
    changing: &mut ChangeContext<'_>,
    row: &Columns,
    id: AgentQuestionId,
    from: &str,
) -> Result<(), StoreError> {
    if !row.update(changing.connection, changing.key, from).await? {
        // The transaction has held the write lock since before the row was read.
        return Err(StoreError::Unreadable("the state of a question".to_owned()));
    }
    changing.woken.push(waited_for(id));
    Ok(())
}

/// By what a question is waited for: one table has both kinds, and so one poll.
fn waited_for(id: AgentQuestionId) -> ApprovalId {
    id.as_uuid().into()
}

/// Withdraws a row of a session that has ended, if it is an agent's open question.
pub(super) async fn end(
    changing: &mut ChangeContext<'_>,
    row: &Row,
    now: Timestamp,
) -> Result<(), StoreError> {
    match understood(row, changing.key, now)? {
        Some((row, asked)) => withdraw(changing, row, &asked).await,
        None => Ok(()),
    }
}

async fn withdraw(
    changing: &mut ChangeContext<'_>,
    mut row: Columns,
    asked: &AskedQuestion,
) -> Result<(), StoreError> {
    if asked.state != AgentQuestionState::Pending {
        return Ok(());
    }
    WITHDRAWN.clone_into(&mut row.state);
    write(changing, &row, asked.id, PENDING).await
}

/// Records a question unless one with the same words waits for its answer, or its answer for a call.
struct Ask {
    asked: NewAgentQuestion,
    row: Option<Columns>,
}

impl Change for Ask {
    type Output = Result<AskedQuestion, LedgerError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.asked.principal.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        self.row = Columns::of_question(&self.asked, redactor);
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let asked = &self.asked;
        let principal = &asked.principal;
        let now = changing.now.max(asked.asked);
        let same_words = changing
            .connection
            .query(
                "SELECT * FROM approval WHERE tenant = ?1 AND session = ?2 AND digest = ?3
                 AND kind = 'question' AND used_by IS NULL ORDER BY asked_at, id",
                &values![
                    principal.tenant.as_str(),
                    principal.session.as_str(),
                    asked.words.as_slice()
                ],
            )
            .await?;
        for row in &same_words {
            let Some((_, found)) = understood(row, changing.key, now)? else {
                continue;
            };
            let usable = match found.state {
                AgentQuestionState::Pending | AgentQuestionState::Answered { .. } => true,
                AgentQuestionState::Lapsed | AgentQuestionState::Withdrawn => false,
            };
            if usable && asks_for(&found.principal, principal) {
                return Ok(Ok(found));
            }
        }
        if let Err(error) = room(changing, KIND, principal, asked.most_open, now).await? {
            return Ok(Err(error));
        }
        let Some(row) = &self.row else {
            return Ok(Err(unavailable(
                "nothing is left of the question without its secrets",
            )));
        };
        row.insert(changing.connection, changing.key).await?;
        let recorded = row.agent_question(now);
        Ok(recorded.ok_or_else(|| unavailable("the question is not valid")))
    }
}

/// Answers a question.
struct Reply {
    tenant: TenantId,
    id: AgentQuestionId,
    given: GivenReply,
    by: Answerer,
    at: Timestamp,
}

impl Change for Reply {
    type Output = Result<AskedQuestion, ReplyError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        if let GivenReply::Text(text) = &mut self.given {
            let mut clean = redactor.text(text).into_owned();
            clean.truncate(clean.floor_char_boundary(MAX_REPLY_BYTES));
            *text = clean;
        }
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let now = changing.now.max(self.at);
        let (connection, key) = (&mut *changing.connection, changing.key);
        let Some((mut row, asked)) = load(connection, key, &self.tenant, self.id, now).await?
        else {
            return Ok(Err(ReplyError::Unknown));
        };
        let (state, text) = match asked.takes(&self.given, &self.by) {
            Ok(GivenReply::Text(text)) => (ANSWERED, Some(text)),
            Ok(GivenReply::Decline) => (DECLINED, None),
            Err(error) => return Ok(Err(error)),
        };
        state.clone_into(&mut row.state);
        row.answered_by = Some(self.by.name());
        row.answered_at = Some(self.at.0);
        row.reason = text;
        write(changing, &row, asked.id, PENDING).await?;
        Ok(row.agent_question(now).ok_or(ReplyError::Unknown))
    }
}

/// What else can happen to a question.
enum Turn {
    Withdraw,
    Receive(CallId),
}

struct TurnQuestion {
    tenant: TenantId,
    id: AgentQuestionId,
    turn: Turn,
    at: Timestamp,
}

impl Change for TurnQuestion {
    type Output = Result<(), LedgerError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let now = changing.now.max(self.at);
        let (connection, key) = (&mut *changing.connection, changing.key);
        let Some((mut row, asked)) = load(connection, key, &self.tenant, self.id, now).await?
        else {
            return Ok(Err(no_such_question()));
        };
        match (&self.turn, &asked.state) {
            (Turn::Withdraw, _) => withdraw(changing, row, &asked).await?,
            (Turn::Receive(call), AgentQuestionState::Answered { received: None, .. }) => {
                row.used_by = Some(call.as_uuid().as_bytes().to_vec());
                let state = row.state.clone();
                write(changing, &row, asked.id, &state).await?;
            }
            (Turn::Receive(_), _) => {}
        }
        Ok(Ok(()))
    }
}

impl Approvals {
    async fn question(
        &self,
        tenant: &TenantId,
        id: AgentQuestionId,
    ) -> Result<Option<AskedQuestion>, LedgerError> {
        let scope = [tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope));
        let mut connection = reader.await.map_err(failed)?;
        let now = self.clock.now();
        let found = load(&mut *connection, &self.key, tenant, id, now).await;
        Ok(found.map_err(failed)?.map(|(_, asked)| asked))
    }

    /// One look by a waiter.
    async fn look_at_question(
        &self,
        tenant: &TenantId,
        id: AgentQuestionId,
    ) -> Result<AskedQuestion, LedgerError> {
        let _turn = self.looks.acquire().await;
        let found = Box::pin(self.question(tenant, id)).await?;
        found.ok_or_else(no_such_question)
    }

    async fn turn_question(
        &self,
        tenant: &TenantId,
        id: AgentQuestionId,
        turn: Turn,
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        let tenant = tenant.clone();
        let change = TurnQuestion {
            tenant,
            id,
            turn,
            at,
        };
        self.queue.change(change).await?
    }
}

impl AgentQuestionStore for Approvals {
    fn ask(&self, question: NewAgentQuestion) -> BoxFuture<'_, Result<AskedQuestion, LedgerError>> {
        Box::pin(async move {
            let asked = question;
            self.queue.change(Ask { asked, row: None }).await?
        })
    }

    fn answered<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<AskedQuestion, LedgerError>> {
        Box::pin(async move {
            loop {
                let first = self.look_at_question(tenant, id).await?;
                if first.state != AgentQuestionState::Pending {
                    return Ok(first);
                }
                let waiter = self.waiting.wait_for(waited_for(id), first.expires)?;
                // Listens before looking again, so that an answer in between is not missed.
                let mut changed = std::pin::pin!(waiter.changed());
                changed.as_mut().enable();
                let second = self.look_at_question(tenant, id).await?;
                if second.state != AgentQuestionState::Pending {
                    return Ok(second);
                }
                changed.await;
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
            let tenant = tenant.clone();
            let change = Reply {
                tenant,
                id,
                given: reply,
                by,
                at,
            };
            self.queue.change(change).await?
        })
    }

    fn received<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        by: CallId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(self.turn_question(tenant, id, Turn::Receive(by), at))
    }

    fn withdraw<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(self.turn_question(tenant, id, Turn::Withdraw, at))
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: AgentQuestionId,
    ) -> BoxFuture<'a, Result<Option<AskedQuestion>, LedgerError>> {
        Box::pin(self.question(tenant, id))
    }

    fn pending<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<AskedQuestion>, LedgerError>> {
        Box::pin(async move {
            let scope = [tenant.as_str()];
            let reader = self.store.reader(Scope::Tenants(&scope));
            let mut reader = reader.await.map_err(failed)?;
            let rows = reader
                .query(
                    "SELECT * FROM approval WHERE tenant = ?1 AND state = 'pending'
                     AND kind = 'question' AND expires_at > ?2 ORDER BY asked_at, id LIMIT ?3",
                    &values![tenant.as_str(), now.0, row_limit(limit)],
                )
                .await
                .map_err(failed)?;
            let mut pending = Vec::with_capacity(rows.len());
            for row in &rows {
                let found = understood(row, &self.key, now).map_err(failed)?;
                pending.extend(found.map(|(_, asked)| asked));
            }
            Ok(pending)
        })
    }
}
