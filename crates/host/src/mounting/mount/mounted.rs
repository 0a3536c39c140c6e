//! MCP servers mounted in one workspace of an engine that has several. Each workspace has its own
//! connections, processes, logins and pins, so nothing of one tenant's servers reaches another's.

use std::sync::Arc;

use haft_mcp::upstream::supervise::{Fleet, UnseenServer};
use haft_runtime::Workspace;

use super::{MountPlan, accept};
use crate::error::HostError;

/// The mounted servers of a workspace. Dropping it ends them; [`Self::stop`] waits for that.
pub struct MountedServers {
    plan: MountPlan,
    fleet: Fleet,
}

impl MountedServers {
    /// Registers what the servers of a plan offer with a workspace's tools, and starts those that
    /// have never run. What a server asks during a call is refused: no client is connected here.
    pub fn start(plan: MountPlan, workspace: &Workspace) -> Result<Self, HostError> {
        let fleet = plan.start(workspace.registry(), &Arc::default(), UnseenServer::Start)?;
        Ok(Self { plan, fleet })
    }

    /// Starts a server if necessary and accepts everything it offers now. Returns how many
    /// definitions were newly accepted.
    pub async fn accept(&self, id: &str) -> Result<usize, HostError> {
        accept::everything(&self.plan, &self.fleet, id).await
    }

    /// Ends the servers.
    pub async fn stop(&self) {
        self.plan.keep_failures(&self.fleet);
        self.fleet.stop().await;
    }
}
