//! Which workspaces a command means that looks at the record, and what people know workspaces by: those
//! of this directory, one for each back end that its configuration sends somebody to. Connects to none
//! of them to look.

use std::{collections::HashMap, path::PathBuf};

use haft_contract::{
    TenantId, WorkspaceId,
    host::{CallFilter, History, StoredCall, StoredWorkspace},
    ops::{BackendId, Operations},
};

use crate::{
    WorkspaceSource,
    config::{ConfigPlaces, Settings, backends::BackendName},
    error::{HostError, HostErrorKind},
    screen_text::below_home,
};

/// The most workspaces whose names are read; the rest are known by their ids.
const MAX_WORKSPACES: usize = 10_000;

/// The workspaces of a record: which are meant here, and their names.
#[derive(Debug)]
pub struct RecordedWorkspaces {
    here: Vec<WorkspaceId>,
    home: Option<PathBuf>,
    shown: HashMap<WorkspaceId, String>,
}

impl RecordedWorkspaces {
    /// Reads the names, and finds the workspaces that the configuration means. Without the names, the
    /// others are known by their ids.
    pub async fn read(history: &impl History, tenant: &TenantId, places: ConfigPlaces) -> Self {
        let known = history.workspaces(tenant, MAX_WORKSPACES).await;
        let known = known.unwrap_or_else(|error| {
            tracing::warn!(%error, "the names of workspaces cannot be read");
            Vec::new()
        });
        let (home, root) = (places.home.clone(), places.workspace.display().to_string());
        let local = WorkspaceId::of_root(&BackendId::new("local"), &root);
        // Looking at the past must work even if today's configuration does not.
        let settings = places.settings().ok();
        let here = settings.map(|settings| workspaces_here(&settings, &known));
        let here = here.unwrap_or_else(|| vec![(BackendName::Local, local.clone())]);
        let mut shown: HashMap<WorkspaceId, String> = known
            .into_iter()
            .filter_map(|workspace| Some((workspace.id, workspace.shown?)))
            .collect();
        shown.entry(local).or_insert(root);
        Self {
            here: here.into_iter().map(|(_, id)| id).collect(),
            home,
            shown,
        }
    }

    /// The workspaces that are meant when none is named, first that of whoever names no back end.
    pub fn here(&self) -> &[WorkspaceId] {
        &self.here
    }

    /// What people know the workspaces here by.
    pub fn here_in_words(&self) -> String {
        let names: Vec<String> = self.here.iter().map(|id| self.name(id)).collect();
        names.join(" and ")
    }

    /// The calls of these workspaces.
    pub fn filter(&self) -> CallFilter {
        CallFilter {
            workspaces: self.here.clone(),
            ..CallFilter::default()
        }
    }

    /// What people know a workspace by: its root, below `~` where it is.
    pub fn name(&self, id: &WorkspaceId) -> String {
        self.below_home(&self.root(id))
    }

    /// What people know the workspace of a call by.
    pub fn of_call(&self, call: &StoredCall) -> String {
        self.below_home(&self.root_of_call(call))
    }

    /// The whole root of a workspace, for programs; its id if nobody knows it.
    pub fn root(&self, id: &WorkspaceId) -> String {
        self.shown
            .get(id)
            .cloned()
            .unwrap_or_else(|| id.to_string())
    }

    /// The whole root of a call's workspace, for programs.
    pub fn root_of_call(&self, call: &StoredCall) -> String {
        let shown = call.workspace_shown.clone();
        shown.unwrap_or_else(|| self.root(&call.workspace))
    }

    /// A root as a person writes it.
    pub fn below_home(&self, root: &str) -> String {
        let home = self.home.as_ref().and_then(|home| home.to_str());
        below_home(root, home)
    }
}

/// The workspaces of this directory, for a command that then works in one of them.
#[derive(Debug)]
pub struct WorkspacesHere {
    places: Vec<(BackendName, WorkspaceId)>,
    /// The only one, which was opened to know it.
    only: Option<Operations>,
}

impl WorkspacesHere {
    /// Finds them. If there is only one, it is opened, because its id is certain only then.
    pub async fn find(settings: &Settings, history: &impl History) -> Result<Self, HostError> {
        let used = settings.backends.used();
        if let [backend] = used.as_slice() {
            let operations = WorkspaceSource::on(settings, backend)?.open().await?;
            return Ok(Self {
                places: vec![(backend.clone(), operations.workspace_id())],
                only: Some(operations),
            });
        }
        let known = history.workspaces(&settings.places.tenant, MAX_WORKSPACES);
        let known = known.await.map_err(|error| {
            HostError::new(
                HostErrorKind::Record,
                format!("the workspaces of the record cannot be read: {error}"),
                "`haft doctor` checks the record",
            )
        })?;
        Ok(Self {
            places: workspaces_here(settings, &known),
            only: None,
        })
    }

    /// Their ids, first that of whoever names no back end.
    pub fn ids(&self) -> Vec<WorkspaceId> {
        self.places.iter().map(|(_, id)| id.clone()).collect()
    }

    /// Opens one of them, on the back end that its calls were made on.
    pub async fn open(
        self,
        settings: &Settings,
        id: Option<&WorkspaceId>,
    ) -> Result<Operations, HostError> {
        if let Some(only) = self.only {
            return Ok(only);
        }
        let place = self.places.iter().find(|(_, known)| Some(known) == id);
        let backend = place.map_or(settings.backends.default_backend(), |(backend, _)| {
            backend.clone()
        });
        let operations = WorkspaceSource::on(settings, &backend)?.open().await?;
        if id.is_none_or(|id| operations.workspace_id() == *id) {
            return Ok(operations);
        }
        Err(HostError::new(
            HostErrorKind::Refused,
            format!(
                "the calls were made in another directory of the back end `{backend}` than `{}`",
                operations.root
            ),
            "let the configuration name that directory again, or name a call made in this one",
        ))
    }
}

/// The workspaces of this directory by their back ends, as far as the record knows them.
fn workspaces_here(
    settings: &Settings,
    known: &[StoredWorkspace],
) -> Vec<(BackendName, WorkspaceId)> {
    let used = settings.backends.used().into_iter();
    used.map(|backend| {
        let id = if let Some(elsewhere) = settings.backends.get(&backend) {
            remote(settings, &backend, elsewhere.root(), known)
        } else {
            let root = settings.places.workspace.display().to_string();
            WorkspaceId::of_root(&settings.backends.id(&backend), &root)
        };
        (backend, id)
    })
    .collect()
}

/// The workspace on another machine or in a container. Its whole path is known there, so it is found
/// among those that calls were made in; without any, none is.
fn remote(
    settings: &Settings,
    backend: &BackendName,
    root: &str,
    known: &[StoredWorkspace],
) -> WorkspaceId {
    let machine = settings.backends.id(backend);
    let root = root.trim_start_matches("~/").trim_end_matches('/');
    let mut on_machine = known.iter().filter(|workspace| {
        let shown = workspace.shown.as_deref();
        let path = shown.and_then(|shown| shown.strip_prefix(machine.as_str())?.strip_prefix(':'));
        path.is_some_and(|path| {
            path == root || path.ends_with(&format!("/{root}")) || root.is_empty()
        })
    });
    let found = on_machine.next().map(|workspace| workspace.id.clone());
    found.unwrap_or_else(|| WorkspaceId::of_root(&machine, root))
}

#[cfg(test)]
mod tests {
    use haft_testkit::MemoryLedger;

    use super::*;
    use crate::config::{Env, resolve::Overrides};

    #[tokio::test]
    async fn a_record_that_cannot_name_its_workspaces_still_has_this_one() {
        let (work, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let overrides = Overrides {
            workspace: Some(work.path().to_path_buf()),
            data_dir: Some(data.path().to_path_buf()),
            ..Overrides::default()
        };
        let places = ConfigPlaces::find(&Env::default(), &overrides).unwrap();
        let root = places.workspace.display().to_string();
        let ledger = MemoryLedger::new();
        ledger.set_down(true);
        let read = RecordedWorkspaces::read(&ledger, &TenantId::local(), places).await;
        assert_eq!(read.root(&read.here()[0]), root);
        let other = WorkspaceId::parse("ws-other").unwrap();
        assert_eq!(read.name(&other), "ws-other");
    }
}
