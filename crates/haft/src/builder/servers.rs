//! The MCP servers that a builder mounts.

use std::path::Path;

use haft_contract::{TenantId, UserId};
use haft_host::{
    DirectoryOptions, HostBuilder, McpServer,
    mount::{LoginOwner, MountDefaults, MountPlan},
};

use super::HaftBuilder;

#[derive(Default)]
pub(super) struct ServersToMount(Vec<McpServer>);

impl<W> HaftBuilder<W> {
    /// Mounts an MCP server: its tools are listed with the built-in ones, go through the same
    /// stages, and are shown to a model once they are accepted ([`Haft::accept_server`](crate::Haft::accept_server), or `haft
    /// mcp accept` if the program shares this data directory).
    ///
    /// ```
    /// # use haft::prelude::*;
    /// use haft::McpServer;
    ///
    /// # fn build() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = McpServer::command("docs", ["npx", "-y", "docs-server@1.4.2"])?;
    /// let builder = Haft::open("work").mcp_server(server).allow("mcp__docs__*");
    /// # Ok(()) }
    /// ```
    pub fn mcp_server(mut self, server: McpServer) -> Self {
        self.servers.0.push(server);
        self
    }
}

impl ServersToMount {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// With what every server gets.
    pub(super) fn with_defaults(
        self,
        local: &DirectoryOptions,
        data_dir: &Path,
        user: &UserId,
    ) -> PlannedServers {
        let defaults = MountDefaults {
            sandbox: local.sandbox.clone(),
            data_dir: data_dir.to_owned(),
            logins: LoginOwner {
                tenant: TenantId::local(),
                user: user.clone(),
            },
        };
        PlannedServers(MountPlan::new(self.0, defaults))
    }
}

/// Servers that are ready to be mounted.
pub(super) struct PlannedServers(MountPlan);

impl PlannedServers {
    pub(super) fn mount_on(self, builder: HostBuilder) -> HostBuilder {
        builder.mount(self.0)
    }
}
