//! What callers send to the writer.

use std::sync::Arc;

use haft_contract::{
    AgentId, CallEvent, CallId, Principal, SessionId, SessionKind, TenantId, UserId, WorkPath,
    WorkspaceId,
    event::RecordedEvent,
    host::{Epoch, LedgerError, Timestamp},
};
use tokio::sync::oneshot;

use crate::{change::Job, encoded_request::EncodedRequest, open_call::OpenCall};

/// Notified once the awaited write is durable, or when it failed for now.
pub(crate) type Waiter = oneshot::Sender<Result<(), LedgerError>>;

/// Identifies an open call within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// A handle for a call that another process left open. Counted down from the top, so that it
    /// never collides with this process's own.
    pub(crate) fn adopted(index: u64) -> Self {
        Self(u64::MAX - index)
    }
}

/// Who holds an open call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallHolder {
    /// This process, which runs what it opens. The call is settled once the process is gone.
    ThisProcess,
    /// Nobody yet: it was accepted for a later claim.
    Nobody,
    /// This process, by a claim, until a newer claim supersedes it.
    Claim(Epoch),
}

impl CallHolder {
    /// The claim, if it is held by one.
    pub(crate) fn claim(self) -> Option<Epoch> {
        match self {
            Self::Claim(epoch) => Some(epoch),
            Self::ThisProcess | Self::Nobody => None,
        }
    }
}

/// A file and the principal who saw it. Agents that share a session id do not share what they saw.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeenKey {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) session_kind: SessionKind,
    pub(crate) user: UserId,
    pub(crate) agent: AgentId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) path: WorkPath,
}

impl SeenKey {
    /// The key for this file of this workspace and this principal.
    pub(crate) fn new(principal: &Principal, workspace: &WorkspaceId, path: &WorkPath) -> Self {
        Self {
            tenant: principal.tenant.clone(),
            session: principal.session.clone(),
            session_kind: principal.session_kind,
            user: principal.user.clone(),
            agent: principal.agent.clone(),
            workspace: workspace.clone(),
            path: path.clone(),
        }
    }
}

/// A task for the writer.
#[derive(Debug)]
pub(crate) enum Message {
    /// A call was opened.
    Open {
        handle: Handle,
        call: CallId,
        principal: Arc<Principal>,
        request: EncodedRequest,
        at: Timestamp,
        holder: CallHolder,
    },
    /// A recorded call was claimed.
    TakeUp {
        handle: Handle,
        call: Box<OpenCall>,
        epoch: Epoch,
    },
    /// Events to record.
    Append {
        handle: Handle,
        events: Vec<RecordedEvent>,
        waiter: Option<Waiter>,
    },
    /// The final events, including the settlement.
    Settle {
        handle: Handle,
        events: Vec<RecordedEvent>,
    },
    /// A call's record was dropped before it was settled.
    Abandon { handle: Handle },
    /// A change to questions or grants.
    Change { job: Box<dyn Job> },
    /// Waits for everything before it.
    Flush { waiter: Waiter },
}

/// Whether an event is a start that depends on something.
pub(crate) fn is_checked_start(happened: &RecordedEvent) -> bool {
    match &happened.event {
        CallEvent::Started {
            approval,
            grants,
            read_from,
            ..
        } => approval.is_some() || !grants.is_empty() || read_from.is_some(),
        _ => false,
    }
}
