//! What is served to agents: a runtime's tools for one principal, and what mounted servers offer
//! beside tools. The same whatever the transport and the era.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{CallId, CallRequest, Principal, SessionId};
use haft_runtime::{Runtime, registry::Entry};
use serde_json::Value;

use super::{
    approve::{Approvals, Owner},
    capped::REQUESTS_IN_FLIGHT,
    live::LiveCalls,
    subscriptions::Subscriptions,
};
use crate::{
    catalog::{self, Catalog},
    mounts::Mounts,
};

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
pub enum Sessions {
    /// The principal's own: for a transport that is one connection.
    OfEndpoint,
    /// One for every connection that begins with `initialize`, ended with it. Requests that stand
    /// for themselves belong to the principal's own.
    OfConnection,
}

/// What is served.
pub struct Endpoint {
    pub(super) runtime: Runtime,
    pub(super) principal: Arc<Principal>,
    /// Whose the calls of that principal are; the same for every request that stands for itself.
    owner: Owner,
    pub(super) calls: Arc<LiveCalls>,
    pub(super) mounts: Option<Arc<dyn Mounts>>,
    pub(super) sessions: Sessions,
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
        sessions: Sessions,
    ) -> Self {
        Self {
            runtime,
            owner: Owner::of(&principal),
            principal,
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

    /// Offers what mounted servers have beside tools.
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

    /// Lists tools another way. For less than everything, [`catalog::tools`] must be registered.
    #[must_use]
    pub fn catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// The tools that are listed to a principal.
    pub(super) fn listed(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        self.catalog.listed(self.runtime.tools_for(principal))
    }

    /// What a principal is told of the whole.
    pub(super) fn instructions(&self, principal: &Principal) -> String {
        if self.catalog.searches(&self.runtime.tools_for(principal)) {
            format!("{INSTRUCTIONS}\n{SEARCHABLE}")
        } else {
            INSTRUCTIONS.to_owned()
        }
    }

    /// The call of a tool, by its own name or by one that calls tools which are not listed.
    pub(super) fn request(
        &self,
        tool: String,
        arguments: Value,
        principal: &Arc<Principal>,
    ) -> CallRequest {
        let tools = self.runtime.registry().snapshot();
        let is_shown = |entry: &Entry| self.runtime.shows(principal, entry);
        let (tool, arguments) = catalog::unwrap(&tools, is_shown, tool, arguments);
        CallRequest::new(tool, arguments, Arc::clone(principal))
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

    /// Whose the calls of a principal are.
    pub(super) fn owner_of(&self, principal: &Arc<Principal>) -> Owner {
        if Arc::ptr_eq(principal, &self.principal) {
            self.owner
        } else {
            Owner::of(principal)
        }
    }

    /// The principal in a session of its own.
    pub(super) fn in_new_session(&self) -> Arc<Principal> {
        let mut principal = (*self.principal).clone();
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
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
