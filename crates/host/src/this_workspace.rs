//! Which workspace a command means that only looks at the record, and what people know workspaces by.
//! Opens no workspace: one on another machine would have to be connected to.

use std::{collections::HashMap, path::PathBuf};

use haft_backends::container::backend_id;
use haft_contract::{
    TenantId, WorkspaceId,
    host::{CallFilter, History, StoredCall, StoredWorkspace},
    ops::BackendId,
};

use crate::{
    config::{ConfigPlaces, Settings},
    screen_text::below_home,
};

/// The most workspaces whose names are read; the rest are known by their ids.
const MAX_WORKSPACES: usize = 10_000;

/// The workspaces of a record: which one is meant here, and their names.
#[derive(Debug)]
pub struct RecordedWorkspaces {
    here: WorkspaceId,
    home: Option<PathBuf>,
    shown: HashMap<WorkspaceId, String>,
}

impl RecordedWorkspaces {
    /// Reads the names, and finds the workspace that the configuration means. Without the names, the
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
        let elsewhere = settings.and_then(|settings| remote(&settings, &known));
        let mut shown: HashMap<WorkspaceId, String> = known
            .into_iter()
            .filter_map(|workspace| Some((workspace.id, workspace.shown?)))
            .collect();
        shown.entry(local.clone()).or_insert(root);
        Self {
            here: elsewhere.unwrap_or(local),
            home,
            shown,
        }
    }

    /// The workspace that is meant when none is named.
    pub fn here(&self) -> &WorkspaceId {
        &self.here
    }

    /// The calls of this workspace.
    pub fn filter(&self) -> CallFilter {
        CallFilter::of_workspace(self.here.clone())
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

/// The workspace on another machine or in a container. Its whole path is known there, so it is found among those that calls
/// were made in; without any, none is.
fn remote(settings: &Settings, known: &[StoredWorkspace]) -> Option<WorkspaceId> {
    let (machine, root) = match (&settings.ssh, &settings.docker) {
        (Some(ssh), _) => {
            let root = ssh.root.trim_start_matches("~/");
            (format!("ssh:{}:", ssh.destination.host()), root)
        }
        (None, Some(docker)) => {
            let machine = backend_id(&docker.container);
            (format!("{machine}:"), docker.workspace.as_str())
        }
        (None, None) => return None,
    };
    let root = root.trim_end_matches('/');
    let mut on_machine = known.iter().filter(|workspace| {
        let path = workspace
            .shown
            .as_deref()
            .and_then(|shown| shown.strip_prefix(&machine));
        path.is_some_and(|path| {
            path == root || path.ends_with(&format!("/{root}")) || root.is_empty()
        })
    });
    let none = WorkspaceId::of_root(&BackendId::new(&machine), root);
    Some(
        on_machine
            .next()
            .map_or(none, |workspace| workspace.id.clone()),
    )
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
        assert_eq!(read.root(read.here()), root);
        let other = WorkspaceId::parse("ws-other").unwrap();
        assert_eq!(read.name(&other), "ws-other");
    }
}
