//! Asking: a new question, or an existing one that asks the same.

use haft_contract::{
    Principal, TenantId,
    host::{Approval, ApprovalQuestion, ApprovalState, LedgerError, LedgerErrorKind, Timestamp},
};

use super::{
    asks_for,
    row::{APPROVAL, Columns, understood},
};
use crate::{
    change::{Change, ChangeContext},
    redact::Redactor,
    store::{Lock, StoreError, values},
};

/// The largest form that is kept. A larger one can be answered only in the process that asks it.
const MAX_FORM_BYTES: usize = 1024 * 1024;

/// The longest summary that is kept.
const MAX_SUMMARY_BYTES: usize = 1_000;

/// Records a question unless the same one is already pending.
pub(super) struct AskQuestion {
    question: ApprovalQuestion,
    row: Option<Columns>,
}

impl AskQuestion {
    pub(super) fn new(question: ApprovalQuestion) -> Self {
        Self {
            question,
            row: None,
        }
    }

    /// The form to keep: whole, or not at all, because people are shown all of it or nothing.
    fn kept_form(&self, redactor: &Redactor) -> Option<String> {
        let text = self.question.form.to_string();
        if text.len() > MAX_FORM_BYTES {
            return None;
        }
        let mut form = serde_json::Value::clone(&self.question.form);
        let holds_secret = redactor.value(&mut form);
        (!holds_secret).then_some(text)
    }
}

impl Change for AskQuestion {
    type Output = Result<Approval, LedgerError>;

    const LOCK: Option<Lock> = Some(Lock::Answers);

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.question.principal.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        let mut summary = redactor.text(&self.question.summary).into_owned();
        if summary.len() > MAX_SUMMARY_BYTES {
            let end = summary.floor_char_boundary(MAX_SUMMARY_BYTES);
            summary.truncate(end);
            summary.push('…');
        }
        let form = self.kept_form(redactor);
        self.row = Some(Columns::new(&self.question, form, summary));
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let question = &self.question;
        let principal = &question.principal;
        let now = changing.now.max(question.asked);
        let same_plan = changing
            .connection
            .query(
                "SELECT * FROM approval WHERE tenant = ?1 AND session = ?2 AND digest = ?3
                 AND kind = 'approval' AND state IN ('pending', 'approved') ORDER BY asked_at, id",
                &values![
                    principal.tenant.as_str(),
                    principal.session.as_str(),
                    question.digest.0.as_slice()
                ],
            )
            .await?;
        for row in &same_plan {
            let Some((_, approval)) = understood(row, changing.key, now)? else {
                continue;
            };
            let usable = matches!(
                approval.state,
                ApprovalState::Pending | ApprovalState::Approved { .. }
            );
            if usable && asks_for(&approval.principal, principal) {
                return Ok(Ok(approval));
            }
        }
        if let Err(error) = room(changing, APPROVAL, principal, question.most_open, now).await? {
            return Ok(Err(error));
        }
        let recorded = match &self.row {
            Some(row) => {
                row.insert(changing.connection, changing.key).await?;
                row.approval(now)
            }
            None => None,
        };
        Ok(recorded.ok_or_else(|| crate::queue::unavailable("the question is not valid")))
    }
}

/// Fails when a session has as many open questions of a kind as it may have.
pub(super) async fn room(
    changing: &mut ChangeContext<'_>,
    kind: &str,
    principal: &Principal,
    most_open: usize,
    now: Timestamp,
) -> Result<Result<(), LedgerError>, StoreError> {
    let open: i64 = changing
        .connection
        .number(
            "SELECT count(*) FROM (SELECT 1 FROM approval WHERE tenant = ?1 AND session = ?2
                 AND state = 'pending' AND expires_at > ?3 AND kind = ?4 LIMIT ?5) AS pending",
            &values![
                principal.tenant.as_str(),
                principal.session.as_str(),
                now.0,
                kind,
                i64::try_from(most_open).unwrap_or(i64::MAX)
            ],
        )
        .await?;
    if usize::try_from(open).unwrap_or(usize::MAX) < most_open {
        return Ok(Ok(()));
    }
    Ok(Err(LedgerError::new(
        LedgerErrorKind::LimitExceeded,
        format!("the session has {open} open questions; wait for some to be answered"),
    )))
}
