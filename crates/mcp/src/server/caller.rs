//! Who a request is from, and in which workspace its calls run. An endpoint over pipes has one
//! caller. Over HTTP, each request may have another, where the host identifies them.

use std::sync::Arc;

use haft_contract::{BoxFuture, CallRequest, Principal, WorkspaceId};
use haft_runtime::{Workspace, registry::Entry};
use http::HeaderMap;
use serde_json::Value;

use crate::catalog;

/// Identifies who a request is from by its headers: an API key, a signed token. Unknown callers are
/// refused before anything else of the request is read.
pub trait Identify: Send + Sync {
    /// The caller with these headers, if there is one.
    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Option<Caller>>;
}

/// Who a request is from.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    workspace: WorkspaceId,
}

impl Caller {
    /// A principal in the workspace of a host that has just one.
    pub fn new(principal: Arc<Principal>) -> Self {
        Self {
            principal,
            workspace: WorkspaceId::local(),
        }
    }

    /// Sets the workspace.
    #[must_use]
    pub fn in_workspace(mut self, workspace: WorkspaceId) -> Self {
        self.workspace = workspace;
        self
    }

    /// The principal.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// The workspace its calls run in.
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// Whether both belong to one tenant and one workspace.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.workspace == other.workspace && self.is_of_same_tenant(other)
    }

    /// Whether both belong to one tenant.
    pub(super) fn is_of_same_tenant(&self, other: &Self) -> bool {
        self.principal.tenant == other.principal.tenant
    }
}

/// A caller, and its workspace as of when the request arrived. Without a workspace nothing is
/// listed, and the runtime denies calls, gives the reason and records it.
#[derive(Debug, Clone)]
pub(super) struct ServedCaller {
    pub(super) caller: Caller,
    pub(super) workspace: Option<Arc<Workspace>>,
}

impl ServedCaller {
    /// The tools shown to a principal.
    pub(super) fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let workspace = self.workspace.as_ref();
        workspace.map_or_else(Vec::new, |workspace| workspace.tools_for(principal))
    }

    /// The request for a tool call, by the tool's own name or through one that calls unlisted
    /// tools.
    pub(super) fn request(
        &self,
        tool: String,
        arguments: Value,
        principal: &Arc<Principal>,
    ) -> CallRequest {
        let (tool, arguments) = match &self.workspace {
            Some(workspace) => {
                let tools = workspace.registry().snapshot();
                let is_shown = |entry: &Entry| workspace.shows(principal, entry);
                catalog::unwrap(&tools, is_shown, tool, arguments)
            }
            None => (tool, arguments),
        };
        self.placed(CallRequest::new(tool, arguments, Arc::clone(principal)))
    }

    /// Puts a request into this caller's workspace.
    pub(super) fn placed(&self, request: CallRequest) -> CallRequest {
        request.in_workspace(self.caller.workspace.clone())
    }
}
