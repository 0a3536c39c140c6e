//! Which calls a receiver is told about.

use std::sync::Arc;

use haft_contract::{CallId, Principal, SessionId, TenantId};

/// Which events a receiver gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    pub(super) scope: EventScope,
    pub(super) detail: EventDetail,
}

/// Whose calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventScope {
    Host,
    Session(TenantId, SessionId),
    Calls(Arc<[CallId]>),
}

/// Which of their events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventDetail {
    All,
    OnlyLive,
}

impl EventFilter {
    /// Every call of this runtime, of every tenant and session.
    pub fn host() -> Self {
        Self::of(EventScope::Host)
    }

    /// The calls of a principal's conversation, whichever of its agents makes them.
    pub fn session(principal: &Principal) -> Self {
        let (tenant, session) = (principal.tenant.clone(), principal.session.clone());
        Self::of(EventScope::Session(tenant, session))
    }

    /// One call.
    pub fn call(call: CallId) -> Self {
        Self::calls([call])
    }

    /// These calls.
    pub fn calls(calls: impl IntoIterator<Item = CallId>) -> Self {
        Self::of(EventScope::Calls(calls.into_iter().collect()))
    }

    /// Only what shows a call at work: progress, output and items. Nothing of that is on record, so
    /// a reader that is slow misses it and is told how much.
    #[must_use]
    pub fn only_live(mut self) -> Self {
        self.detail = EventDetail::OnlyLive;
        self
    }

    fn of(scope: EventScope) -> Self {
        Self {
            scope,
            detail: EventDetail::All,
        }
    }
}
