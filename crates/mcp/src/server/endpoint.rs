//! What is served to agents: a runtime's tools for one principal, and what mounted servers offer
//! beside tools. The same whatever the transport and the era.

use std::{fmt, sync::Arc};

use haft_contract::{CallId, Principal, SessionId};
use haft_runtime::Runtime;

use super::{live::LiveCalls, subscriptions::Subscriptions};
use crate::mounts::Mounts;

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
    pub(super) calls: Arc<LiveCalls>,
    pub(super) mounts: Option<Arc<dyn Mounts>>,
    pub(super) sessions: Sessions,
    pub(super) page_entries: usize,
    pub(super) subscriptions: Subscriptions,
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
            principal,
            calls,
            mounts: None,
            sessions,
            page_entries: PAGE_ENTRIES,
            subscriptions: Subscriptions::default(),
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

    /// The principal in a session of its own.
    pub(super) fn in_new_session(&self) -> Arc<Principal> {
        let mut principal = (*self.principal).clone();
        // An id of Haft's own making, of characters every identifier may hold.
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
