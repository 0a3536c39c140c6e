//! Who a request is from, and in which workspace its calls run. An endpoint over pipes has one caller;
//! one over HTTP may have another with every request, where the host says who they are.

use std::sync::Arc;

use haft_contract::{BoxFuture, CallRequest, Principal, WorkspaceId};
use haft_runtime::{Workspace, registry::Entry};
use http::HeaderMap;
use serde_json::Value;

use crate::catalog;

/// Says who a request is from, by what its head says: an API key, a signed token. Whoever is not known
/// is refused before anything of the request is read.
pub trait Identify: Send + Sync {
    /// The caller, if these headers are those of one.
    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Option<Caller>>;
}

/// Who a request is from.
#[derive(Debug, Clone)]
pub struct Caller {
    principal: Arc<Principal>,
    workspace: WorkspaceId,
}

impl Caller {
    /// A principal, in the one workspace of a host that has one.
    pub fn new(principal: Arc<Principal>) -> Self {
        Self {
            principal,
            workspace: WorkspaceId::local(),
        }
    }

    /// In another workspace.
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

    /// Whether both are of one tenant, in one workspace.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.workspace == other.workspace && self.principal.tenant == other.principal.tenant
    }
}

/// A caller, and its workspace as it was when the request came. Without one nothing is listed, and what
/// is called is denied by the runtime, which says why and records it.
#[derive(Debug, Clone)]
pub(super) struct ServedCaller {
    pub(super) caller: Caller,
    pub(super) workspace: Option<Arc<Workspace>>,
}

impl ServedCaller {
    /// The tools that a principal is shown.
    pub(super) fn tools_for(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let workspace = self.workspace.as_ref();
        workspace.map_or_else(Vec::new, |workspace| workspace.tools_for(principal))
    }

    /// The call of a tool, by its own name or by one that calls tools which are not listed.
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

    /// A request, in this caller's workspace.
    pub(super) fn placed(&self, request: CallRequest) -> CallRequest {
        request.in_workspace(self.caller.workspace.clone())
    }
}
