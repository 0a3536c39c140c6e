//! A host from a configuration file, with directories for the workspaces of its tenants.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::{CallRequest, Outcome, Principal, TenantId, WorkspaceId};
use haft_host::{
    HostedWorkspace,
    config::{ConfigPlaces, Env, resolve::Overrides},
    serving::{ServedHost, ServedHostBuilder},
};
use serde_json::Value;
use tempfile::TempDir;

/// How long a call may take that asks nobody.
const PATIENCE: Duration = Duration::from_secs(30);

/// A served host, and everything around it on disk.
pub(crate) struct ConfiguredHost {
    pub(crate) served: ServedHost,
    directory: TempDir,
}

impl ConfiguredHost {
    /// Opens a host with this text as the configuration of the person who runs it.
    pub(crate) async fn open(config: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for name in ["own", "home", "config/haft"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("config/haft/haft.toml"), config).unwrap();
        fs::write(root.join("own/notes.txt"), "this is own").unwrap();
        let env = Env {
            config_home: Some(root.join("config")),
            data_home: Some(root.join("data")),
            home: Some(root.join("home")),
            user: Some("ada".to_owned()),
            current_dir: root.join("own"),
            ..Env::default()
        };
        let overrides = Overrides::default();
        let places = ConfigPlaces::find(&env, &overrides).unwrap();
        let settings = places.settings().unwrap();
        let builder = ServedHostBuilder::from_settings(settings, &env).unwrap();
        let served = builder.takes_workspaces().open(&env, &overrides).await;
        Self {
            served: served.unwrap(),
            directory,
        }
    }

    /// A directory that has a file which says its name.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let directory = self.root().join("tenants").join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("notes.txt"), format!("this is {name}")).unwrap();
        directory
    }

    /// Such a directory as a workspace of a tenant.
    pub(crate) fn workspace(&self, of: &str, name: &str) -> Arc<HostedWorkspace> {
        let directory = self.directory(name);
        let added = self.served.host().add_workspace(&directory, &tenant(of));
        added.unwrap()
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &self,
        who: &Arc<Principal>,
        workspace: &WorkspaceId,
        tool: &str,
        input: Value,
    ) -> Arc<Outcome> {
        let request = CallRequest::new(tool, input, Arc::clone(who));
        let request = request.in_workspace(workspace.clone());
        let call = self.served.host().runtime().call(request);
        let outcome = tokio::time::timeout(PATIENCE, call).await;
        outcome.unwrap_or_else(|_| panic!("`{tool}` waits, perhaps for an answer"))
    }

    /// Where everything is.
    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

/// Somebody of a tenant, by whom the operator's own rules do not change.
pub(crate) fn principal(of: &str, user: &str) -> Arc<Principal> {
    let mut who = Principal::local(
        user.parse().unwrap(),
        "agent".parse().unwrap(),
        "session".parse().unwrap(),
    );
    who.tenant = tenant(of);
    Arc::new(who)
}
