//! The layer between a running tool and the back end: lets through only what the plan names.
//!
//! The guard opens the paths that were resolved when the plan was made, not the ones the tool
//! passes, so what was decided and approved is what is touched. It keeps the content of files
//! before they change, and notes which versions a session has seen, so that no tool can forget to.

mod background;
pub(crate) mod changes;
mod claim;
pub(crate) mod confinement;
mod files;
mod memory;
mod process;
mod read_from;
mod read_only;
mod repository;
mod rows;
mod search;
mod todo;
mod world;

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use haft_contract::{
    BoxFuture, CallId, ErrorKind, PathMode, PathScope, Principal, SealedPlan, ToolError, WorkPath,
    context::{OpenSpilled, PastChanges, SeenFiles},
    event::RecordedEvent,
    host::{ArtifactId, ArtifactStore, Ledger, ReadArtifact},
    ops::{FileVersion, Operations, OpsError},
};

pub(crate) use self::read_only::ReadOnly;
use self::{changes::ChangeWatch, confinement::Confinement};
use crate::{
    change_history::ChangeHistory, engine::Engine, labels::Session, record::Recording,
    workspace::Workspace,
};

/// The guarded operations of one call.
pub(crate) struct Guard {
    pub(crate) engine: Arc<Engine>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) plan: Arc<SealedPlan>,
    /// Read-denied patterns that a search over a tree must leave out.
    pub(crate) withheld: Arc<[String]>,
    /// Addresses that rules deny, by whatever name; `None` if that is not known, and then nothing is
    /// connected to.
    pub(crate) denied_addresses: Option<Arc<[IpAddr]>>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) recording: Arc<Recording>,
    /// What the session has read from.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) confinement: Confinement,
    pub(crate) changes: ChangeWatch,
    /// Paths that were left out of the plan, and why.
    pub(crate) left_out: Arc<[OpsError]>,
    /// What earlier calls did to files, once the tool asks.
    pub(crate) past: OnceLock<ChangeHistory>,
}

impl Guard {
    /// The resolved path for one the tool names, if the plan covers it for reading. Write access
    /// includes reading.
    fn readable(&self, path: &WorkPath) -> Result<WorkPath, OpsError> {
        self.covered(path, |mode| match mode {
            PathMode::Read | PathMode::Write => true,
        })
    }

    /// The resolved path for one the tool names, if the plan covers it for writing.
    fn writable(&self, path: &WorkPath) -> Result<WorkPath, OpsError> {
        self.covered(path, |mode| match mode {
            PathMode::Read => false,
            PathMode::Write => true,
        })
    }

    fn covered(
        &self,
        path: &WorkPath,
        allowed: impl Fn(PathMode) -> bool,
    ) -> Result<WorkPath, OpsError> {
        self.still_wanted()?;
        for access in self
            .plan
            .path_accesses()
            .filter(|access| allowed(access.mode))
        {
            match access.scope {
                PathScope::File => {
                    if &access.path == path {
                        return Ok(access.target().clone());
                    }
                }
                PathScope::Tree => {
                    if access.path.contains(path) {
                        let depth = access.path.components().count();
                        let below: Vec<&str> = path.components().skip(depth).collect();
                        let joined = if below.is_empty() {
                            Ok(access.target().clone())
                        } else {
                            access.target().join(&below.join("/"))
                        };
                        let target = joined.map_err(|error| {
                            OpsError::new(ErrorKind::InvalidPath, error.to_string())
                        })?;
                        return self.unless_withheld(path, target);
                    }
                }
            }
        }
        let left_out = self
            .left_out
            .iter()
            .find(|error| error.path() == Some(path));
        Err(left_out.cloned().unwrap_or_else(|| {
            let message = "the call's plan does not name this path";
            OpsError::new(ErrorKind::NotInPlan, message).on(path)
        }))
    }

    /// Once its call has been settled, a tool that was left behind at its deadline can touch
    /// nothing.
    fn still_wanted(&self) -> Result<(), OpsError> {
        if self.recording.is_settled() {
            let message = "the call this belongs to has ended";
            return Err(OpsError::new(ErrorKind::Cancelled, message));
        }
        Ok(())
    }

    /// What a search over a tree leaves out cannot be opened by name either. A path that a file
    /// access names was judged separately and does not get here.
    fn unless_withheld(&self, path: &WorkPath, target: WorkPath) -> Result<WorkPath, OpsError> {
        let withheld = &self.withheld;
        let search = &self.operations().search;
        if !withheld.is_empty()
            && (search.withholds(withheld, path)? || search.withholds(withheld, &target)?)
        {
            let message = "reading this is denied, and the plan names only the tree around it";
            return Err(OpsError::new(ErrorKind::Denied, message).on(path));
        }
        Ok(target)
    }

    fn operations(&self) -> &Operations {
        &self.workspace.operations
    }

    fn ledger(&self) -> &dyn Ledger {
        &*self.engine.ledger
    }

    /// Where artifacts of this call's tenant are kept.
    fn own_artifacts(&self) -> Arc<dyn ArtifactStore> {
        self.ledger().artifacts_of(&self.principal.tenant)
    }

    fn past(&self) -> &ChangeHistory {
        self.past
            .get_or_init(|| ChangeHistory::new(&self.engine, &self.workspace, &self.principal))
    }

    fn note_seen(&self, path: &WorkPath, version: &FileVersion) {
        self.ledger()
            .note_seen(&self.principal, self.plan.workspace_id(), path, version);
    }
}

impl SeenFiles for Guard {
    fn last_seen<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, OpsError>> {
        Box::pin(async move {
            let resolved = self.readable(path)?;
            self.ledger()
                .last_seen(&self.principal, self.plan.workspace_id(), &resolved)
                .await
                .map_err(|error| OpsError::new(ErrorKind::Unavailable, error.to_string()))
        })
    }
}

impl PastChanges for Guard {
    fn of<'a>(
        &'a self,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, ToolError>> {
        self.past().of(calls)
    }

    fn open(&self, content: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>> {
        self.past().open(content)
    }
}

impl OpenSpilled for Guard {
    fn open(&self, call: CallId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>> {
        Box::pin(async move {
            let unavailable = |error: haft_contract::host::LedgerError| {
                ToolError::new(ErrorKind::Unavailable, error.to_string())
            };
            let found = self
                .ledger()
                .spilled(&self.principal, self.plan.workspace_id(), call)
                .await
                .map_err(unavailable)?;
            let Some(artifact) = found else {
                return Err(ToolError::new(
                    ErrorKind::NotFound,
                    format!("this session has no call `{call}` with output left out"),
                )
                .at("/call")
                .hint("use the call id named in the result whose output was cut"));
            };
            self.ledger()
                .artifacts()
                .open(artifact)
                .await
                .map_err(unavailable)
        })
    }
}
