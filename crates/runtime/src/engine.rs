//! What the calls of all workspaces share: the record, the clock, hooks, listeners, tables and
//! caps. Every table is keyed by tenant, workspace or session, because one engine serves many of
//! each.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Principal, WorkspaceId,
    host::{Clock, Hook, Ledger},
};
use tokio_util::sync::CancellationToken;

use crate::{
    background::Processes,
    halt::{HaltedCall, cancelled},
    host_events::Listeners,
    in_flight::InFlight,
    labels::SessionLabels,
    limits::Limits,
    locks::Locks,
    loops::Loops,
    pending_questions::PendingQuestions,
    registry::Registry,
    workspace::{Workspace, WorkspaceError, Workspaces},
};

/// How long a workspace may take to open.
const OPEN_WAIT: Duration = Duration::from_secs(30);

/// What all clones of a runtime share.
pub(crate) struct Engine {
    pub(crate) workspaces: Arc<dyn Workspaces>,
    /// The tools of the only workspace, for a host that has just one.
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) limits: Limits,
    pub(crate) locks: Locks,
    pub(crate) loops: Loops,
    pub(crate) sessions: SessionLabels,
    pub(crate) processes: Processes,
    pub(crate) asking: PendingQuestions,
    pub(crate) in_flight: InFlight,
}

impl Engine {
    /// The workspace a principal names, opened if necessary, within the time limit.
    pub(crate) async fn workspace(
        &self,
        principal: &Principal,
        id: &WorkspaceId,
        cancel: &CancellationToken,
    ) -> Result<Arc<Workspace>, HaltedCall> {
        let workspace = match self.workspaces.opened(principal, id) {
            Some(workspace) => workspace,
            None => self.open(principal, id, cancel).await?,
        };
        if !workspace.is_open_to(principal) {
            tracing::error!(%id, tenant = %principal.tenant, "a workspace of another tenant was supplied");
            return Err(WorkspaceError::not_found(id).halt());
        }
        Ok(workspace)
    }

    async fn open(
        &self,
        principal: &Principal,
        id: &WorkspaceId,
        cancel: &CancellationToken,
    ) -> Result<Arc<Workspace>, HaltedCall> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(HaltedCall::before_anything(cancelled())),
            opened = self.workspaces.open(principal, id) => opened.map_err(WorkspaceError::halt),
            () = tokio::time::sleep(OPEN_WAIT) => {
                let reason = format!("the workspace did not open within {OPEN_WAIT:?}");
                Err(WorkspaceError::unavailable(reason).halt())
            }
        }
    }
}
