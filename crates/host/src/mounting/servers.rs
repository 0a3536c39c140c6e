//! The mounted MCP servers of a host, from its builder to its end, and what else comes from settings.

use std::sync::Arc;

use haft_contract::ProviderId;
use haft_ledger::Redactor;
use haft_mcp::{
    catalog,
    client::Clients,
    upstream::supervise::{Fleet, UnseenServer},
};
use haft_runtime::registry::{Entry, Registry};
use tokio_util::sync::CancellationToken;

use super::mount::{MountPlan, report};
use crate::{
    assembly::Assembly,
    error::{HostError, chain},
    follow_trust::FollowedFile,
    host_policy::HostPolicy,
    script_secrets::ScriptSecrets,
};

/// How servers are mounted.
#[derive(Clone)]
pub(crate) struct MountOptions {
    /// Who gets the servers' questions.
    pub(crate) clients: Arc<Clients>,
    /// Whether to start a server whose tools are not known yet, to learn them.
    pub(crate) unseen: UnseenServer,
    /// Whether to register the tools that find and call unlisted tools.
    pub(crate) searchable: bool,
    /// Whether other programs can see the state of the servers.
    pub(crate) reported: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            clients: Arc::default(),
            unseen: UnseenServer::Leave,
            searchable: false,
            reported: false,
        }
    }
}

impl Assembly {
    /// MCP servers that are not mounted yet.
    pub fn mounts(&self) -> &Arc<MountPlan> {
        &self.mounts
    }

    /// Registers the tools with which a model finds and calls unlisted tools.
    pub fn make_searchable(&self) -> Result<(), HostError> {
        self.add_catalog_tools(self.runtime.registry())
    }

    /// The same tools, for callers that count them without registering any.
    pub fn catalog_tools(&self) -> Vec<Arc<Entry>> {
        let elsewhere = Arc::new(Registry::new());
        if self.add_catalog_tools(&elsewhere).is_err() {
            tracing::error!("the tools that make a catalog searchable cannot be registered");
        }
        let elsewhere = elsewhere.snapshot();
        elsewhere.page(0, elsewhere.len()).to_vec()
    }

    pub(crate) fn add_catalog_tools(&self, registry: &Arc<Registry>) -> Result<(), HostError> {
        let taken = |why: String| {
            HostError::config(
                why,
                "give your own tool another name, or list every tool: catalog = \"full\" under [mcp]",
            )
        };
        let tools = catalog::tools(registry, Arc::clone(&self.rules));
        let tools = tools.map_err(|error| taken(chain(&error)))?;
        registry
            .register(&ProviderId::builtin(), tools)
            .map_err(|error| taken(chain(&error)))
    }

    /// Mounts the configured MCP servers. They end when the returned value is dropped.
    pub fn mount(&self, clients: &Arc<Clients>, unseen: UnseenServer) -> Result<Fleet, HostError> {
        self.mounts.start(self.runtime.registry(), clients, unseen)
    }

    /// Registers what the servers last offered, for a command that looks at tools but runs none.
    pub fn mount_to_look(&self) -> Result<(), HostError> {
        // Nothing is started, so there is nothing to keep alive.
        self.mount(&Arc::default(), UnseenServer::Leave).map(drop)
    }
}

/// The mounted servers of a running host.
pub(crate) struct MountedFleet {
    plan: Arc<MountPlan>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) configured: Configured,
}

impl MountedFleet {
    /// Registers what servers offer. The search tools are registered first, so that no server takes
    /// one of their names.
    pub(crate) fn start(
        assembly: &Assembly,
        mounting: &MountOptions,
        configured: Configured,
    ) -> Result<Self, HostError> {
        if mounting.searchable {
            assembly.make_searchable()?;
        }
        Ok(Self {
            plan: Arc::clone(&assembly.mounts),
            fleet: Arc::new(assembly.mount(&mounting.clients, mounting.unseen)?),
            configured,
        })
    }

    /// Writes the servers' state for other programs if asked to, until cancelled.
    pub(crate) fn report(
        &self,
        mounting: &MountOptions,
        policy: &Arc<HostPolicy>,
        cancel: &CancellationToken,
    ) {
        if mounting.reported {
            let (plan, fleet) = (Arc::clone(&self.plan), Arc::clone(&self.fleet));
            tokio::spawn(report(plan, fleet, Arc::clone(policy), cancel.clone()));
        }
    }

    /// Ends them.
    pub(crate) async fn stop(&self) {
        self.plan.keep_failures(&self.fleet);
        self.fleet.stop().await;
    }
}

/// What a host keeps of the settings it was built from.
#[derive(Default)]
pub(crate) struct Configured {
    script_secrets: ScriptSecrets,
    pub(crate) followed: Option<FollowedFile>,
}

impl Configured {
    pub(crate) fn new(script_secrets: ScriptSecrets, followed: Option<FollowedFile>) -> Self {
        Self {
            script_secrets,
            followed,
        }
    }

    /// Keeps the secrets of scripts out of a record.
    pub(crate) fn keep_out_of(&self, redactor: Arc<Redactor>) {
        self.script_secrets.keep_out_of(redactor);
    }
}
