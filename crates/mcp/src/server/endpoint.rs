//! What is served to agents: a runtime's tools, and what mounted servers offer beside tools. The same
//! whatever the transport and the era. Every request has a caller (`caller.rs`); where nobody says which,
//! it is the endpoint's own.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{CallId, Principal, SessionId, WorkspaceId};
use haft_runtime::{Runtime, registry::Entry};

use super::{
    approve::{Approvals, CallOwner},
    caller::{Caller, ServedCaller},
    capped::REQUESTS_IN_FLIGHT,
    live::LiveCalls,
    subscriptions::Subscriptions,
};
use crate::{catalog::Catalog, mounts::Mounts};

/// What agents are told of the whole.
const INSTRUCTIONS: &str = "Every call is checked against the rules of the person who runs Haft. A call that is \
denied says why: do not repeat it unchanged. A call may wait until a person approved it. Output \
that was too long is kept: `read_output` pages and searches it.";

/// What they are told beside that where most tools are not listed.
const SEARCHABLE: &str = "Most tools are not listed. Before you say that something cannot be done, look for a tool with \
`find_tools`; what it finds is called with the tool it names.";

/// The most entries of a list on one page. Many clients never ask for a second page.
pub const PAGE_ENTRIES: usize = 1_000;

/// Which session the calls of a connection belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// The principal's own: for a transport that is one connection.
    OfEndpoint,
    /// One for every connection that begins with `initialize`, ended with it. Requests that stand
    /// for themselves belong to the principal's own.
    OfConnection,
}

/// What is served.
pub struct Endpoint {
    pub(super) runtime: Runtime,
    /// Who asks where nothing says who does.
    pub(super) caller: Caller,
    /// Whose the calls of that principal are; the same for every request that stands for itself.
    owner: CallOwner,
    pub(super) calls: Arc<LiveCalls>,
    pub(super) mounts: Option<Arc<dyn Mounts>>,
    pub(super) sessions: SessionScope,
    pub(super) page_entries: usize,
    pub(super) requests_in_flight: usize,
    catalog: Catalog,
    pub(super) subscriptions: Subscriptions,
    pub(super) approvals: Approvals,
}

impl Endpoint {
    /// Serves a runtime's tools to a principal. The runtime must send its events to `calls`.
    pub fn new(
        runtime: Runtime,
        principal: Arc<Principal>,
        calls: Arc<LiveCalls>,
        sessions: SessionScope,
    ) -> Self {
        Self {
            runtime,
            owner: CallOwner::of(&principal),
            caller: Caller::new(principal),
            calls,
            mounts: None,
            sessions,
            page_entries: PAGE_ENTRIES,
            requests_in_flight: REQUESTS_IN_FLIGHT,
            catalog: Catalog::default(),
            subscriptions: Subscriptions::default(),
            approvals: Approvals::new(),
        }
    }

    /// Serves another workspace than the one of a host that has one.
    #[must_use]
    pub fn workspace(mut self, workspace: WorkspaceId) -> Self {
        self.caller = self.caller.in_workspace(workspace);
        self
    }

    /// Offers what mounted servers have beside tools, to callers of the endpoint's own workspace.
    #[must_use]
    pub fn mounts(mut self, mounts: Arc<dyn Mounts>) -> Self {
        self.mounts = Some(mounts);
        self
    }

    /// Another number of entries on a page.
    #[must_use]
    pub fn page_entries(mut self, entries: usize) -> Self {
        self.page_entries = entries.max(1);
        self
    }

    /// Serves another number of requests of one connection at once.
    #[must_use]
    pub fn requests_in_flight(mut self, most: usize) -> Self {
        self.requests_in_flight = most;
        self
    }

    /// Lists tools another way. For less than everything, [`crate::catalog::tools`] must be registered.
    #[must_use]
    pub fn catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// The endpoint's own caller, or another, with its workspace.
    pub(super) async fn admit(&self, caller: Option<Caller>) -> ServedCaller {
        let caller = caller.unwrap_or_else(|| self.caller.clone());
        let workspace = self
            .runtime
            .workspace(caller.principal(), caller.workspace());
        let workspace = workspace.await.ok();
        ServedCaller { caller, workspace }
    }

    /// The tools that are listed to a principal.
    pub(super) fn listed(&self, served: &ServedCaller, principal: &Principal) -> Vec<Arc<Entry>> {
        self.catalog.listed(served.tools_for(principal))
    }

    /// What a principal is told of the whole.
    pub(super) fn instructions(&self, served: &ServedCaller, principal: &Principal) -> String {
        if self.catalog.searches(&served.tools_for(principal)) {
            format!("{INSTRUCTIONS}\n{SEARCHABLE}")
        } else {
            INSTRUCTIONS.to_owned()
        }
    }

    /// Keeps clients that cannot be asked waiting for a person for this long.
    #[must_use]
    pub fn approval_wait(mut self, wait: Duration) -> Self {
        self.approvals.patience(wait);
        self
    }

    /// How many calls wait for an answer while no request waits for them.
    pub fn parked(&self) -> usize {
        self.approvals.parked()
    }

    /// What mounted servers offer beside tools, to a caller they are mounted for.
    pub(super) fn mounts_for(&self, caller: &Caller) -> Option<&Arc<dyn Mounts>> {
        let mounts = self.mounts.as_ref();
        mounts.filter(|_| self.caller.is_beside(caller))
    }

    /// Whose the calls of a principal are.
    pub(super) fn owner_of(&self, principal: &Arc<Principal>) -> CallOwner {
        if Arc::ptr_eq(principal, self.caller.principal()) {
            self.owner
        } else {
            CallOwner::of(principal)
        }
    }

    /// A caller's principal in a session of its own.
    pub(super) fn in_new_session(caller: &Caller) -> Arc<Principal> {
        let mut principal = Principal::clone(caller.principal());
        // An id of Haft's own making, of characters every identifier may hold. `haft` tells by it that
        // nobody comes back to this session (`orphans.rs`).
        if let Ok(session) = SessionId::parse(&format!("mcp-{}", CallId::new())) {
            principal.session = session;
        }
        Arc::new(principal)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("runtime", &self.runtime)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
