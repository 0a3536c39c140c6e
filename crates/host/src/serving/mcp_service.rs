//! MCP for somebody else's HTTP server, which identifies the caller and names the workspace.

use std::sync::Arc;

use haft_contract::{Principal, WorkspaceId};
use haft_mcp::server::{Caller, http::HttpEndpoint};
use http::Request;
use tokio_util::sync::CancellationToken;

use super::{HttpAnswer, HttpOptions, RequestBody, ServedHost};

/// Answers MCP requests of many principals in many workspaces, in both eras. A session belongs to the
/// principal who began it, with the same rights and in the same workspace; for anybody else it does
/// not exist.
#[derive(Debug)]
pub struct McpService(HttpEndpoint);

impl ServedHost {
    /// MCP over HTTP until `cancel` is cancelled, which ends its sessions and streams. Cancel it
    /// before the host is closed.
    pub fn mcp_service(&self, options: HttpOptions, cancel: &CancellationToken) -> McpService {
        McpService(HttpEndpoint::new(self.shared_endpoint(), options, cancel))
    }
}

impl McpService {
    /// Answers a request of a principal, whose calls run in this workspace if it may use it. Whoever
    /// mounts this has identified the principal, and checked which host and which web page (`Host`,
    /// `Origin`) the request is from; its path is not looked at. The answer may be a stream without an
    /// end.
    pub async fn answer<B: RequestBody>(
        &self,
        principal: Arc<Principal>,
        workspace: WorkspaceId,
        request: Request<B>,
    ) -> HttpAnswer {
        let caller = Caller::new(principal).in_workspace(workspace);
        self.0.answer(caller, request).await
    }
}
