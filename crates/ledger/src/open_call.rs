//! A call that this process has open, as the writer knows it.

use std::sync::Arc;

use haft_contract::{
    CallEvent, CallId, Principal, ProviderId, Terminal, ToolKey,
    event::RecordedEvent,
    host::{ApprovalId, Timestamp},
};

use crate::{body::Events, message::CallHolder};

/// A call this process has open.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) id: CallId,
    pub(crate) principal: Arc<Principal>,
    pub(crate) holder: CallHolder,
    pub(crate) stored: CallInStore,
    /// The writer that left it open, where this one only settles it.
    pub(crate) left_by: Option<i64>,
    pub(crate) state: CallState,
    /// Its events that have no row yet.
    pub(crate) events: Events,
    /// What those take in the queue's space.
    pub(crate) bytes: usize,
}

/// What is known of a call beside its events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallState {
    /// When it started, if it did.
    pub(crate) started: Option<Timestamp>,
    /// Its tool, once the name resolved.
    pub(crate) tool: Option<ToolKey>,
    pub(crate) settled: Option<Terminal>,
    /// When the last event happened.
    pub(crate) last: Timestamp,
    /// The approval it started with, until that is recorded.
    pub(crate) approval: Option<ApprovalId>,
}

impl CallState {
    /// A call that has only been asked for.
    pub(crate) fn new(at: Timestamp) -> Self {
        Self {
            started: None,
            tool: None,
            settled: None,
            last: at,
            approval: None,
        }
    }

    /// The provider of a tool that was started, other than the built-in one.
    pub(crate) fn provider_used(&self) -> Option<&ProviderId> {
        self.started?;
        let provider = &self.tool.as_ref()?.provider;
        (*provider != ProviderId::builtin()).then_some(provider)
    }

    /// Folds in one event.
    pub(crate) fn absorb(&mut self, happened: &RecordedEvent) {
        self.last = happened.at;
        match &happened.event {
            CallEvent::Resolved { tool } => self.tool = Some(tool.clone()),
            CallEvent::Planned { plan } => self.tool = Some(plan.tool().clone()),
            CallEvent::Started { approval, .. } => {
                self.started = Some(happened.at);
                self.approval = *approval;
            }
            CallEvent::Settled { outcome } => self.settled = Some(outcome.terminal),
            _ => {}
        }
    }
}

/// What the store has for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallInStore {
    /// Nothing yet.
    Nothing,
    /// Rows: where it is listed, and the number of the next part.
    Rows { listed: i64, next_part: i64 },
    /// Its id was taken, or somebody already settled it: it gets no further rows.
    Refused,
}
