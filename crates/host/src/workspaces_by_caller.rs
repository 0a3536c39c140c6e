//! The workspaces of a process whose callers work on several back ends: who calls decides which one,
//! as `backend` in `haft.toml` says. One that is not the process's own is opened at its first call.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{BoxFuture, Principal, WorkspaceId};
use haft_runtime::{Workspace, WorkspaceError, Workspaces};
use tokio::sync::OnceCell;

use crate::{
    config::{
        Settings,
        backends::{BackendName, Backends},
    },
    error::HostError,
    workspace::WorkspaceSource,
};

/// The back ends that callers of one process may work on, not opened yet.
pub(crate) struct SeveralBackends {
    backends: Backends,
    own: BackendName,
    sources: BTreeMap<BackendName, Result<WorkspaceSource, HostError>>,
}

impl SeveralBackends {
    /// Those of the settings; nothing if all calls work on the one in force.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        if !settings.varies {
            return None;
        }
        let used = settings.backends.used().into_iter();
        let sources = used.map(|backend| {
            let source = WorkspaceSource::on(settings, &backend);
            (backend, source)
        });
        Some(Self {
            sources: sources.collect(),
            backends: settings.backends.clone(),
            own: settings.backend().clone(),
        })
    }

    /// The workspaces, of which the process's own is open.
    pub(crate) fn beside(self, own: Arc<Workspace>) -> Arc<dyn Workspaces> {
        let opened = self.sources.into_iter().map(|(backend, source)| {
            let workspace = OnceCell::new_with((backend == self.own).then(|| Arc::clone(&own)));
            (backend, BackendWorkspace { source, workspace })
        });
        Arc::new(WorkspacesByCaller {
            opened: opened.collect(),
            backends: self.backends,
            like: own,
        })
    }
}

/// Workspaces with the same tools and rules on several back ends.
struct WorkspacesByCaller {
    backends: Backends,
    opened: BTreeMap<BackendName, BackendWorkspace>,
    /// The one that the others are like.
    like: Arc<Workspace>,
}

/// The workspace on one back end, once somebody has called there.
struct BackendWorkspace {
    source: Result<WorkspaceSource, HostError>,
    workspace: OnceCell<Arc<Workspace>>,
}

impl WorkspacesByCaller {
    fn of(&self, principal: &Principal) -> (BackendName, Option<&BackendWorkspace>) {
        let backend = self.backends.of(principal).backend;
        let place = self.opened.get(&backend);
        (backend, place)
    }
}

impl BackendWorkspace {
    async fn open(&self, like: &Workspace) -> Result<&Arc<Workspace>, String> {
        let opening = self.workspace.get_or_try_init(|| async {
            let source = self.source.as_ref().map_err(HostError::to_string)?.clone();
            let operations = source.open().await.map_err(|error| error.to_string())?;
            Ok(like.over(operations))
        });
        opening.await
    }
}

impl Workspaces for WorkspacesByCaller {
    fn opened(&self, principal: &Principal, workspace: &WorkspaceId) -> Option<Arc<Workspace>> {
        let (_, place) = self.of(principal);
        let opened = place?.workspace.get()?;
        opened.is_meant_by(workspace).then(|| Arc::clone(opened))
    }

    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async move {
            let (backend, place) = self.of(principal);
            let place = place.ok_or_else(|| WorkspaceError::not_found(workspace))?;
            let opened = place.open(&self.like).await.map_err(|why| {
                let reason = format!("the back end `{backend}` cannot be used: {why}");
                WorkspaceError::unavailable(reason)
            })?;
            if opened.is_meant_by(workspace) {
                Ok(Arc::clone(opened))
            } else {
                Err(WorkspaceError::not_found(workspace))
            }
        })
    }
}

impl std::fmt::Debug for SeveralBackends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeveralBackends")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
