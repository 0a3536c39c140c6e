//! What callers hand to the writer.

use haft_contract::{
    AgentId, CallRequest, Principal, SessionId, SessionKind, TenantId, UserId, WorkPath,
    WorkspaceId,
    event::RecordedEvent,
    host::{Epoch, LedgerError, Timestamp},
};
use tokio::sync::oneshot;

use crate::{draft::CallDraft, sqlite::Job};

/// Told when what it waits for is durable, or that it will not be for now.
pub(crate) type Waiter = oneshot::Sender<Result<(), LedgerError>>;

/// Names an open call within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Handle(pub(crate) u64);

impl Handle {
    /// A handle for a call that another process left open. Counted from the other end, so that it
    /// never meets one of this process's own.
    pub(crate) fn adopted(index: u64) -> Self {
        Self(u64::MAX - index)
    }
}

/// Who holds a call that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallHolder {
    /// This process, which runs what it opens. The call is settled when the process is gone.
    ThisProcess,
    /// Nobody yet: it was accepted for whoever claims it.
    Nobody,
    /// This process, by a claim, for as long as no newer one counts.
    Claim(Epoch),
}

impl CallHolder {
    /// The claim, where it is held by one.
    pub(crate) fn claim(self) -> Option<Epoch> {
        match self {
            Self::Claim(epoch) => Some(epoch),
            Self::ThisProcess | Self::Nobody => None,
        }
    }
}

/// Which file, for whom. Agents that share a session id do not share what they have seen.
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
    /// This file of this workspace, for this principal.
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

/// Something for the writer to do.
#[derive(Debug)]
pub(crate) enum Message {
    /// A call was opened.
    Open {
        handle: Handle,
        request: Box<CallRequest>,
        at: Timestamp,
        holder: CallHolder,
    },
    /// A call that is on record was claimed.
    TakeUp {
        handle: Handle,
        draft: Box<CallDraft>,
        position: i64,
        epoch: Epoch,
    },
    /// Events happened.
    Append {
        handle: Handle,
        events: Vec<RecordedEvent>,
        waiter: Option<Waiter>,
    },
    /// The last events happened, the settlement among them.
    Settle {
        handle: Handle,
        events: Vec<RecordedEvent>,
    },
    /// The record of a call was dropped before it was settled.
    Abandon { handle: Handle },
    /// What is kept about questions or grants is to change.
    Change { job: Box<dyn Job> },
    /// Somebody waits for everything before this.
    Flush { waiter: Waiter },
}
