//! What a running host says and does about its mounted servers, and the file that it follows.

use std::sync::Arc;

use haft_mcp::upstream::supervise::Fleet;

use crate::{
    config::{Env, resolve::Overrides},
    error::HostError,
    follow_trust::follow,
    host::Host,
    mounting::mount::{MountPlan, accept},
};

impl Host {
    /// Replaces the rules whenever `haft trust` accepts another text of the workspace's
    /// configuration file, found as it was at the start. Until this host is closed.
    pub fn follow_trust(&self, env: &Env, overrides: &Overrides) {
        if let Some(file) = self.servers.configured.followed.clone() {
            let (env, overrides) = (env.clone(), overrides.clone());
            let (policy, cancel) = (Arc::clone(&self.policy), self.closed.clone());
            tokio::spawn(follow(file, env, overrides, policy, cancel));
        }
    }

    /// The configured MCP servers.
    pub fn mounts(&self) -> &Arc<MountPlan> {
        &self.assembly.mounts
    }

    /// The MCP servers and their states.
    pub fn servers(&self) -> &Arc<Fleet> {
        &self.servers.fleet
    }

    /// Starts a mounted server and accepts everything it offers now. Returns how many definitions
    /// were newly accepted.
    pub async fn accept_server(&self, id: &str) -> Result<usize, HostError> {
        accept::everything(self.mounts(), &self.servers.fleet, id).await
    }
}
