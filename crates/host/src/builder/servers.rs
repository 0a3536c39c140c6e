//! How a host that is being built mounts its servers.

use std::sync::Arc;

use haft_mcp::{client::Clients, upstream::supervise::UnseenServer};

use super::HostBuilder;
use crate::mounting::MountPlan;

impl HostBuilder {
    /// Mounts these servers instead of those in the settings.
    pub fn mount(mut self, plan: MountPlan) -> Self {
        self.parts.mounts = Arc::new(plan);
        self
    }

    /// The configured MCP servers.
    pub fn mounts(&self) -> Arc<MountPlan> {
        Arc::clone(&self.parts.mounts)
    }

    /// Sends the questions of mounted servers to these clients.
    pub fn clients(mut self, clients: Arc<Clients>) -> Self {
        self.mounting.clients = clients;
        self
    }

    /// Starts servers whose tools are not known yet, and shows their state in `haft mcp status`.
    /// For programs that serve until they are stopped.
    pub fn serves(mut self) -> Self {
        self.mounting.unseen = UnseenServer::Start;
        self.mounting.reported = true;
        self
    }

    /// Adds the tools with which a model finds and calls unlisted tools.
    pub fn searchable(mut self) -> Self {
        self.mounting.searchable = true;
        self
    }
}
