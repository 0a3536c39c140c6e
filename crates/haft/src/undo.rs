//! Taking back what calls changed, as something a person does and no model may: the tool exists for
//! the calls that are made here, in no list and under no name a model could write.
//!
//! The undo takes the one path of a call: it is planned, decided by the rules, asked about where they
//! say so, and recorded, so that it can be undone itself.

use std::{collections::BTreeSet, sync::Arc};

use haft_contract::{
    AgentId, CallId, CallRequest, Principal, SessionKind, WorkspaceId,
    host::{CallQuery, History, StoredCall},
};
use haft_host::{
    HostError, HostErrorKind,
    undo::{self, Undone},
};
use serde_json::Value;

use crate::Haft;

/// The agent under whose name a person's own calls are recorded and judged: rules for them alone are
/// in `[agents.person]`.
pub const PERSON: &str = undo::PERSON;

/// The most calls of one session that are taken back at once.
const MAX_CALLS: usize = haft_tools::undo::MAX_UNDO_CALLS;

impl Haft {
    /// Takes back what one call of this user changed in this workspace: changed files get their old
    /// content, removed ones come back, created ones go, and git's state goes back as a whole. A file
    /// that has changed since is a conflict and stays.
    ///
    /// It is the person's call, not the agent's: the rules see the agent [`PERSON`] in a session of
    /// kind `main`. Under the preset `careful` the approver is asked and shown the diff; `allow("undo")`
    /// lets it pass. Models are not offered it and cannot call it.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// let haft = Haft::open(workspace.path()).data_dir(data.path());
    /// let haft = haft.allow("write").allow("undo").build().await?;
    /// let written = haft.call("write", json!({"path": "notes.txt", "content": "hello"})).await;
    ///
    /// let undone = haft.undo(written.call).await?;
    ///
    /// assert!(undone.is_complete());
    /// assert!(!workspace.path().join("notes.txt").exists());
    /// # haft.close().await?;
    /// # Ok(()) })
    /// # }
    /// ```
    pub async fn undo(&self, call: CallId) -> Result<Undone, HostError> {
        let stored = self.ledger().call(&self.principal().tenant, call).await;
        let stored = stored.map_err(unreadable)?;
        let stored = stored.filter(|stored| stored.user == self.principal().user.as_str());
        let Some(stored) = stored else {
            let hint = "name a call of this user that is on record";
            let message = format!("there is no call `{call}`");
            return Err(HostError::new(HostErrorKind::NotFound, message, hint));
        };
        if !self.was_made_here(&stored).await? {
            return Err(HostError::new(
                HostErrorKind::NotFound,
                format!("the call `{call}` was made in another workspace"),
                "undo it in the workspace it was made in",
            ));
        }
        self.take_back(&[call]).await
    }

    /// Takes back what this conversation changed, from its first call to its last: every call of this
    /// user in the session, in this workspace. See [`Haft::undo`].
    pub async fn undo_session(&self) -> Result<Undone, HostError> {
        let query = CallQuery {
            session: Some(self.principal().session.clone()),
            limit: MAX_CALLS,
            ..CallQuery::default()
        };
        let tenant = &self.principal().tenant;
        let found = self.ledger().calls(tenant, &query).await;
        let mut found = found.map_err(unreadable)?;
        if found.len() == MAX_CALLS {
            return Err(HostError::new(
                HostErrorKind::Refused,
                format!("this session has {MAX_CALLS} calls or more"),
                "undo its calls one by one, the last ones first",
            ));
        }
        found.retain(|call| call.user == self.principal().user.as_str());
        let ids: Vec<CallId> = found.iter().map(|call| call.id).collect();
        let changes = self.ledger().changes(tenant, &ids).await;
        let changes = changes.map_err(unreadable)?;
        let changing: BTreeSet<CallId> = changes.iter().map(|change| change.call).collect();
        let mut here = Vec::new();
        for call in found.iter().filter(|call| changing.contains(&call.id)) {
            if self.was_made_here(call).await? {
                here.push(call.id);
            }
        }
        self.take_back(&here).await
    }

    async fn take_back(&self, calls: &[CallId]) -> Result<Undone, HostError> {
        let person = self.person()?;
        let request = |input: Value| {
            let mut request = self.request("undo", input);
            request.principal = Arc::clone(&person);
            request
        };
        let tenant = &self.principal().tenant;
        let undone = undo::undo(self.runtime(), self.ledger(), tenant, calls, request).await;
        undone.map_err(unreadable)
    }

    /// The person that this principal's agent acts for, in the same conversation.
    fn person(&self) -> Result<Arc<Principal>, HostError> {
        let agent = AgentId::parse(PERSON).map_err(|error| {
            let hint = "choose a shorter, plainer name";
            HostError::new(HostErrorKind::Invalid, error.to_string(), hint)
        })?;
        Ok(Arc::new(Principal {
            agent,
            ancestors: Vec::new(),
            session_kind: SessionKind::Main,
            narrowed_from: None,
            ..Principal::clone(self.principal())
        }))
    }

    async fn was_made_here(&self, call: &StoredCall) -> Result<bool, HostError> {
        let CallRequest { workspace, .. } = self.request("undo", Value::Null);
        let principal = self.principal();
        let opened = self.runtime().workspace(principal, &workspace).await;
        let id: WorkspaceId = opened
            .map(|workspace| workspace.id().clone())
            .map_err(|error| {
                let hint = error.hint_text().unwrap_or("open the workspace again");
                HostError::new(HostErrorKind::Unavailable, error.message(), hint)
            })?;
        let here = self
            .ledger()
            .was_made_in(&principal.tenant, call, &id)
            .await;
        here.map_err(unreadable)
    }
}

fn unreadable(error: haft_contract::host::LedgerError) -> HostError {
    HostError::new(
        HostErrorKind::Record,
        error.to_string(),
        "try again; if it stays so, the record has to be repaired",
    )
}
