//! A question as a row: its columns, their signature, and what they mean.

use std::sync::Arc;

use haft_contract::{
    PlanDigest, Principal, TenantId,
    host::{Approval, ApprovalId, ApprovalQuestion, ApprovalState, Timestamp},
};
use uuid::Uuid;

use crate::{
    convert,
    row::StoredPrincipal,
    seal::Seal,
    store::{Connection, Row, StoreError, values},
};

/// Names the signed form below. Other columns or another order need another name.
const FORM: &str = "haft-ledger-approval-2";

/// The signed form of the schema's versions before 4, whose rows had no kind and were all approvals.
const FORM_WITHOUT_KIND: &str = "haft-ledger-approval-1";

/// The kind of a row that a plan waits for.
pub(super) const APPROVAL: &str = "approval";

/// The signed columns of a row, as stored.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(super) tenant: String,
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) call: Vec<u8>,
    pub(super) user: String,
    pub(super) agent: String,
    pub(super) session: String,
    pub(super) principal: String,
    pub(super) digest: Vec<u8>,
    pub(super) form: Option<String>,
    pub(super) summary: String,
    pub(super) asked_at: i64,
    pub(super) expires_at: i64,
    pub(super) state: String,
    pub(super) answered_by: Option<String>,
    pub(super) answered_at: Option<i64>,
    pub(super) reason: Option<String>,
    pub(super) used_by: Option<Vec<u8>>,
}

impl Columns {
    /// The row of a new question.
    pub(super) fn new(question: &ApprovalQuestion, form: Option<String>, summary: String) -> Self {
        let principal = &question.principal;
        let stored = convert::stored_principal(principal);
        Self {
            tenant: principal.tenant.to_string(),
            id: ApprovalId::new().to_string(),
            kind: APPROVAL.to_owned(),
            call: question.call.as_uuid().as_bytes().to_vec(),
            user: principal.user.to_string(),
            agent: principal.agent.to_string(),
            session: principal.session.to_string(),
            // Holds only strings, so this cannot fail.
            principal: serde_json::to_string(&stored).unwrap_or_default(),
            digest: question.digest.0.to_vec(),
            form,
            summary,
            asked_at: question.asked.0,
            expires_at: question.expires.0,
            state: ApprovalState::Pending.as_str().to_owned(),
            answered_by: None,
            answered_at: None,
            reason: None,
            used_by: None,
        }
    }

    /// Reads a row; `None` if this ledger did not sign it.
    pub(crate) fn read(row: &Row, key: &[u8; 32]) -> Result<Option<Self>, StoreError> {
        let columns = Self {
            tenant: row.get("tenant")?,
            id: row.get("id")?,
            kind: row.get("kind")?,
            call: row.get("call")?,
            user: row.get("person")?,
            agent: row.get("agent")?,
            session: row.get("session")?,
            principal: row.get("principal")?,
            digest: row.get("digest")?,
            form: row.get("form")?,
            summary: row.get("summary")?,
            asked_at: row.get("asked_at")?,
            expires_at: row.get("expires_at")?,
            state: row.get("state")?,
            answered_by: row.get("answered_by")?,
            answered_at: row.get("answered_at")?,
            reason: row.get("reason")?,
            used_by: row.get("used_by")?,
        };
        let mac = row.get("mac")?;
        let is_signed = columns.seal(key).is(mac)
            || columns.kind == APPROVAL && columns.seal_without_kind(key).is(mac);
        Ok(is_signed.then_some(columns))
    }

    /// The approval at a moment; `None` if the row cannot be understood, or is not one.
    pub(super) fn approval(&self, now: Timestamp) -> Option<Approval> {
        if self.kind != APPROVAL {
            return None;
        }
        let form = match &self.form {
            Some(form) => Some(Arc::new(serde_json::from_str(form).ok()?)),
            None => None,
        };
        Some(Approval {
            id: ApprovalId::parse(&self.id)?,
            call: Uuid::from_slice(&self.call).ok()?.into(),
            principal: Arc::new(self.principal()?),
            digest: PlanDigest(self.digest.as_slice().try_into().ok()?),
            form,
            summary: self.summary.clone(),
            asked: Timestamp(self.asked_at),
            expires: Timestamp(self.expires_at),
            state: self.state(now)?,
        })
    }

    /// Who asked.
    pub(super) fn principal(&self) -> Option<Principal> {
        let principal: StoredPrincipal = serde_json::from_str(&self.principal).ok()?;
        convert::principal_from(&principal)
    }

    /// The approval's state at a moment.
    fn state(&self, now: Timestamp) -> Option<ApprovalState> {
        let answered = || Some((self.answered_by.clone()?, Timestamp(self.answered_at?)));
        let lapsed = now.0 >= self.expires_at;
        Some(match self.state.as_str() {
            "pending" | "approved" if lapsed => ApprovalState::Lapsed,
            "pending" => ApprovalState::Pending,
            "approved" => {
                let (by, at) = answered()?;
                ApprovalState::Approved { by, at }
            }
            "refused" => {
                let (by, at) = answered()?;
                let reason = self.reason.clone();
                ApprovalState::Refused { by, at, reason }
            }
            "withdrawn" => ApprovalState::Withdrawn,
            "used" => ApprovalState::Used {
                by: Uuid::from_slice(self.used_by.as_deref()?).ok()?.into(),
            },
            _ => return None,
        })
    }

    /// Changes the question's state. A form that can no longer be approved need not be shown.
    pub(super) fn turn(&mut self, state: &ApprovalState) {
        state.as_str().clone_into(&mut self.state);
        match state {
            ApprovalState::Approved { by, at } => {
                self.answered_by = Some(by.clone());
                self.answered_at = Some(at.0);
                return;
            }
            ApprovalState::Refused { by, at, reason } => {
                self.answered_by = Some(by.clone());
                self.answered_at = Some(at.0);
                self.reason.clone_from(reason);
            }
            ApprovalState::Used { by } => {
                self.used_by = Some(by.as_uuid().as_bytes().to_vec());
            }
            ApprovalState::Pending | ApprovalState::Lapsed | ApprovalState::Withdrawn => {}
        }
        self.form = None;
    }

    /// Writes the row of a new question.
    pub(super) async fn insert(
        &self,
        connection: &mut dyn Connection,
        key: &[u8; 32],
    ) -> Result<(), StoreError> {
        connection.execute("INSERT INTO approval (tenant, id, kind, call, person, agent, session, principal, digest, form,
                 summary, asked_at, expires_at, state, changed, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0, ?15)", values![&self.tenant, &self.id, &self.kind, &self.call, &self.user, &self.agent, &self.session, &self.principal, &self.digest, self.form.as_ref(), &self.summary, self.asked_at, self.expires_at, &self.state, self.seal(key).sign().as_slice()]).await?;
        Ok(())
    }

    /// Updates the row's state; returns whether it was still in the old one.
    pub(super) async fn update(
        &self,
        connection: &mut dyn Connection,
        key: &[u8; 32],
        from: &str,
    ) -> Result<bool, StoreError> {
        let changed = connection.next_change().await?;
        let updated = connection
            .execute(
                "UPDATE approval SET form = ?4, state = ?5, answered_by = ?6, answered_at = ?7,
                 reason = ?8, used_by = ?9, mac = ?10, changed = ?11
             WHERE tenant = ?1 AND id = ?2 AND state = ?3",
                values![
                    &self.tenant,
                    &self.id,
                    from,
                    self.form.as_ref(),
                    &self.state,
                    self.answered_by.as_ref(),
                    self.answered_at,
                    self.reason.as_ref(),
                    self.used_by.as_ref(),
                    self.seal(key).sign().as_slice(),
                    changed
                ],
            )
            .await?;
        Ok(updated == 1)
    }

    fn seal(&self, key: &[u8; 32]) -> Seal {
        let seal = Seal::new(FORM, key).text(&self.tenant).text(&self.id);
        self.seal_rest(seal.text(&self.kind))
    }

    /// What an approval was signed with before rows had a kind. It is signed anew with its next change.
    fn seal_without_kind(&self, key: &[u8; 32]) -> Seal {
        let seal = Seal::new(FORM_WITHOUT_KIND, key);
        self.seal_rest(seal.text(&self.tenant).text(&self.id))
    }

    fn seal_rest(&self, seal: Seal) -> Seal {
        seal.bytes(&self.call)
            .text(&self.user)
            .text(&self.agent)
            .text(&self.session)
            .text(&self.principal)
            .bytes(&self.digest)
            .maybe(self.form.as_deref().map(str::as_bytes))
            .text(&self.summary)
            .number(self.asked_at)
            .number(self.expires_at)
            .text(&self.state)
            .maybe(self.answered_by.as_deref().map(str::as_bytes))
            .maybe(
                self.answered_at
                    .map(i64::to_be_bytes)
                    .as_ref()
                    .map(<[u8; 8]>::as_slice),
            )
            .maybe(self.reason.as_deref().map(str::as_bytes))
            .maybe(self.used_by.as_deref())
    }
}

/// One question with its row, if the tenant has it and this ledger signed it.
pub(super) async fn load(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    tenant: &TenantId,
    id: ApprovalId,
    now: Timestamp,
) -> Result<Option<(Columns, Approval)>, StoreError> {
    match by_id(connection, tenant, &id.to_string()).await? {
        Some(row) => understood(&row, key, now),
        None => Ok(None),
    }
}

/// The row with an id, of whichever kind, if the tenant has it.
pub(super) async fn by_id(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    id: &str,
) -> Result<Option<Row>, StoreError> {
    let query = "SELECT * FROM approval WHERE tenant = ?1 AND id = ?2";
    connection
        .optional(query, &values![tenant.as_str(), id])
        .await
}

/// A row and its approval at a moment; `None` if it is unsigned or cannot be understood.
pub(super) fn understood(
    row: &Row,
    key: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(Columns, Approval)>, StoreError> {
    let columns = Columns::read(row, key)?;
    Ok(columns.and_then(|columns| {
        let approval = columns.approval(now)?;
        Some((columns, approval))
    }))
}
