//! Open questions by their ids, for a process that did not ask them.

use haft_contract::host::{
    AnswerError, Approval, ApprovalId, ApprovalState, Clock as _, Ledger as _,
};
use haft_host::recorded_question::why_asked;
use haft_runtime::SystemClock;

use super::{Question, QuestionError};
use crate::embedded::Haft;

/// How many open questions are listed.
const MAX_LISTED: usize = 1_000;

impl Haft {
    /// The open question with this id, of this principal's tenant, whichever process asked it.
    pub async fn question(&self, id: &str) -> Result<Question, QuestionError> {
        let id = ApprovalId::parse(id).ok_or(AnswerError::Unknown)?;
        let approvals = self.ledger().approvals();
        let found = approvals.get(&self.principal().tenant, id).await;
        let found = found.map_err(AnswerError::Store)?;
        let asked = found.ok_or(AnswerError::Unknown)?;
        if asked.state != ApprovalState::Pending {
            return Err(AnswerError::NotOpen { state: asked.state }.into());
        }
        Ok(self.recorded(asked).await)
    }

    /// The open questions of this principal's tenant, the oldest first, at most a thousand.
    pub async fn questions(&self) -> Result<Vec<Question>, QuestionError> {
        let approvals = self.ledger().approvals();
        let tenant = &self.principal().tenant;
        let pending = approvals.pending(tenant, SystemClock.now(), MAX_LISTED);
        let pending = pending.await.map_err(AnswerError::Store)?;
        let mut questions = Vec::with_capacity(pending.len());
        for asked in pending {
            questions.push(self.recorded(asked).await);
        }
        Ok(questions)
    }

    async fn recorded(&self, asked: Approval) -> Question {
        let tenant = &asked.principal.tenant;
        let why = why_asked(self.ledger(), tenant, asked.call).await;
        Question {
            haft: self.clone(),
            asked,
            by: self.principal().user.to_string(),
            why,
            model_call: None,
            here: None,
        }
    }
}
