//! What is served to agents: a runtime's tools, and what mounted servers offer besides tools. The
//! same for every transport and era. Every request has a caller (`caller.rs`); if nothing
//! identifies one, it is the endpoint's own.

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

/// The instructions that agents get.
const INSTRUCTIONS: &str = "Every call is checked against the rules of the person who runs Haft. A call that is \
denied says why: do not repeat it unchanged. A call may wait until a person approves it. Output \
that was too long is kept: `read_output` pages and searches it.";

/// Added to the instructions if most tools are not listed.
const SEARCHABLE: &str = "Most tools are not listed. Before you say that something cannot be done, look for a tool with \
`find_tools`; what it finds is called with the tool it names.";

/// The most entries on one page of a list. Many clients never ask for a second page.
pub const PAGE_ENTRIES: usize = 1_000;

/// Which session the calls of a connection belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionScope {
    /// The principal's own session, for a transport with just one connection.
    OfEndpoint,
    /// A new session for every connection that begins with `initialize`, ended with it.
    /// Self-contained requests belong to the principal's own session.
    OfConnection,
}

/// Who is offered what mounted servers have besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountAudience {
    /// Callers of the endpoint's own tenant in its own workspace.
    OwnWorkspace,
    /// Callers of the endpoint's own tenant, wherever they work.
    OwnTenant,
}

/// A runtime's tools and the mounts, ready to be served over any transport.
pub struct Endpoint {
    pub(super) runtime: Runtime,
    /// The caller if nothing identifies one.
    pub(super) caller: Caller,
    /// The owner of that principal's calls; the same for every self-contained request.
    owner: CallOwner,
    pub(super) calls: Arc<LiveCalls>,
    pub(super) mounts: Option<Arc<dyn Mounts>>,
    audience: MountAudience,
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
            audience: MountAudience::OwnWorkspace,
            sessions,
            page_entries: PAGE_ENTRIES,
            requests_in_flight: REQUESTS_IN_FLIGHT,
            catalog: Catalog::default(),
            subscriptions: Subscriptions::default(),
            approvals: Approvals::new(),
        }
    }

    /// Serves this workspace instead of the default one.
    #[must_use]
    pub fn workspace(mut self, workspace: WorkspaceId) -> Self {
        self.caller = self.caller.in_workspace(workspace);
        self
    }

    /// Offers what mounted servers have besides tools to callers in the endpoint's own workspace.
    #[must_use]
    pub fn mounts(mut self, mounts: Arc<dyn Mounts>) -> Self {
        self.mounts = Some(mounts);
        self
    }

    /// As [`Self::mounts`], for callers of the endpoint's own tenant in any workspace: those of one
    /// host share the tools of its mounted servers.
    #[must_use]
    pub fn mounts_of_tenant(mut self, mounts: Arc<dyn Mounts>) -> Self {
        self.audience = MountAudience::OwnTenant;
        self.mounts(mounts)
    }

    /// Sets the number of entries on a page.
    #[must_use]
    pub fn page_entries(mut self, entries: usize) -> Self {
        self.page_entries = entries.max(1);
        self
    }

    /// Sets how many requests of one connection are served at once.
    #[must_use]
    pub fn requests_in_flight(mut self, most: usize) -> Self {
        self.requests_in_flight = most;
        self
    }

    /// Sets how tools are listed. To list less than everything, [`crate::catalog::tools`] must be
    /// registered.
    #[must_use]
    pub fn catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// Resolves the endpoint's own caller, or another, with its workspace.
    pub(super) async fn admit(&self, caller: Option<Caller>) -> ServedCaller {
        let caller = caller.unwrap_or_else(|| self.caller.clone());
        let workspace = self
            .runtime
            .workspace(caller.principal(), caller.workspace());
        let workspace = workspace.await.ok();
        ServedCaller { caller, workspace }
    }

    /// The tools listed for a principal.
    pub(super) fn listed(&self, served: &ServedCaller, principal: &Principal) -> Vec<Arc<Entry>> {
        self.catalog.listed(served.tools_for(principal))
    }

    /// The instructions for a principal.
    pub(super) fn instructions(&self, served: &ServedCaller, principal: &Principal) -> String {
        if self.catalog.searches(&served.tools_for(principal)) {
            format!("{INSTRUCTIONS}\n{SEARCHABLE}")
        } else {
            INSTRUCTIONS.to_owned()
        }
    }

    /// Sets how long clients that cannot be asked are kept waiting for a person.
    #[must_use]
    pub fn approval_wait(mut self, wait: Duration) -> Self {
        self.approvals.patience(wait);
        self
    }

    /// How many calls wait for an answer while no request waits for them.
    pub fn parked(&self) -> usize {
        self.approvals.parked()
    }

    /// What mounted servers offer besides tools, if they are mounted for this caller.
    pub(super) fn mounts_for(&self, caller: &Caller) -> Option<&Arc<dyn Mounts>> {
        let is_offered = match self.audience {
            MountAudience::OwnWorkspace => self.caller.is_beside(caller),
            MountAudience::OwnTenant => self.caller.is_of_same_tenant(caller),
        };
        self.mounts.as_ref().filter(|_| is_offered)
    }

    /// The owner of a principal's calls.
    pub(super) fn owner_of(&self, principal: &Arc<Principal>) -> CallOwner {
        if Arc::ptr_eq(principal, self.caller.principal()) {
            self.owner
        } else {
            CallOwner::of(principal)
        }
    }

    /// A caller's principal in a new session.
    pub(super) fn in_new_session(caller: &Caller) -> Arc<Principal> {
        let mut principal = Principal::clone(caller.principal());
        // An id that Haft makes itself, from characters that every identifier may hold. The prefix
        // tells `haft` that nobody returns to this session (`orphans.rs`).
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
