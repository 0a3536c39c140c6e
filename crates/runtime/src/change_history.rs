//! What earlier calls did to files and rows, limited to what a principal may know. A tool names calls, never
//! content: a hash opens only content that these calls left.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    BoxFuture, CallEvent, CallId, ErrorKind, Principal, SessionKind, ToolError,
    context::PastChanges,
    event::RecordedEvent,
    host::{ArtifactId, History, LedgerError, ReadArtifact, StoredCall},
};

use crate::{engine::Engine, workspace::Workspace};

/// The most calls one call may ask about.
const MAX_CALLS: usize = 20_000;

/// The past changes that one call may see.
pub(crate) struct ChangeHistory {
    engine: Arc<Engine>,
    workspace: Arc<Workspace>,
    principal: Arc<Principal>,
    /// Content that was listed to this call, and that it may open.
    named: Mutex<HashSet<ArtifactId>>,
}

impl ChangeHistory {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        workspace: &Arc<Workspace>,
        principal: &Arc<Principal>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            workspace: Arc::clone(workspace),
            principal: Arc::clone(principal),
            named: Mutex::default(),
        }
    }

    /// Refuses a call of another principal, or of another workspace, where its paths mean other
    /// files.
    async fn refuse_foreign(&self, history: &dyn History, call: CallId) -> Result<(), ToolError> {
        let tenant = &self.principal.tenant;
        let stored = history.call(tenant, call).await.map_err(unavailable)?;
        let Some(stored) = stored.filter(|stored| self.may_know(stored)) else {
            return Err(not_found(call));
        };
        let here = history.was_made_in(tenant, &stored, self.workspace.id());
        if !here.await.map_err(unavailable)? {
            return Err(ToolError::new(
                ErrorKind::NotFound,
                format!("the call `{call}` was made in another workspace"),
            )
            .hint("run this in the workspace the call was made in"));
        }
        Ok(())
    }

    fn may_know(&self, call: &StoredCall) -> bool {
        let principal = &self.principal;
        let same_session = call.session == principal.session
            && call.session_kind == principal.session_kind
            && call.agent == principal.agent.as_str();
        call.user == principal.user.as_str()
            && (same_session || principal.session_kind == SessionKind::Main)
    }
}

impl PastChanges for ChangeHistory {
    fn of<'a>(
        &'a self,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, ToolError>> {
        Box::pin(async move {
            if calls.len() > MAX_CALLS {
                return Err(ToolError::new(
                    ErrorKind::LimitExceeded,
                    format!("the input names more than {MAX_CALLS} calls"),
                )
                .hint("name fewer calls"));
            }
            let Some(history) = self.engine.ledger.history() else {
                return Err(ToolError::new(
                    ErrorKind::Unavailable,
                    "this record cannot be read back",
                ));
            };
            let tenant = &self.principal.tenant;
            let happened = history.changes(tenant, calls).await.map_err(unavailable)?;
            let changing: BTreeSet<CallId> = happened.iter().map(|change| change.call).collect();
            for call in calls {
                // A call without changes has nothing to hide, but it must exist all the same.
                if changing.contains(call) || calls.len() == 1 {
                    self.refuse_foreign(&*history, *call).await?;
                }
            }
            let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            named.extend(happened.iter().filter_map(|change| match &change.event {
                CallEvent::PreimageKept { artifact, .. }
                | CallEvent::FileChanged { artifact, .. }
                | CallEvent::RowsChanged { artifact, .. } => *artifact,
                _ => None,
            }));
            Ok(happened)
        })
    }

    fn open(&self, content: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>> {
        Box::pin(async move {
            let known = {
                let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
                named.contains(&content)
            };
            if !known {
                let message = "this content does not come from any of the named calls";
                return Err(ToolError::new(ErrorKind::NotInPlan, message));
            }
            let artifacts = self.engine.ledger.artifacts();
            artifacts.open(content).await.map_err(unavailable)
        })
    }
}

fn not_found(call: CallId) -> ToolError {
    ToolError::new(ErrorKind::NotFound, format!("there is no call `{call}`"))
        .hint("name a call of this user that changed files in this workspace")
}

fn unavailable(error: LedgerError) -> ToolError {
    ToolError::new(ErrorKind::Unavailable, error.to_string())
}
