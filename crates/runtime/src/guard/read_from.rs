//! What a session has read from, as calls add to it while they run: hosts that they reach, and sources of
//! memories that they show. The record has it before anything of the source can reach the agent.

use haft_contract::{Label, Labels, host::LedgerError};

use super::Guard;

impl Guard {
    /// What the session has read from by now, which may be more than the plan says.
    pub(super) fn read_from(&self) -> Labels {
        match &self.session {
            Some(session) => session.labels(),
            None => Labels::NONE.with(Label::anything()),
        }
    }

    /// Counts sources as read by this session.
    pub(super) async fn note_read(
        &self,
        labels: impl Iterator<Item = &Label>,
    ) -> Result<(), LedgerError> {
        let known = self.read_from();
        let new: Labels = labels
            .filter(|label| !known.contains(label))
            .cloned()
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let store = self.ledger().memories();
        store.note_read(&self.principal, &new).await?;
        if let Some(session) = &self.session {
            for label in new.iter() {
                session.add(label.clone());
            }
        }
        Ok(())
    }
}
