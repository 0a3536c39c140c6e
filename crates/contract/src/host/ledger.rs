//! The append-only record of calls.
//!
//! A call is opened, its events are appended, and it is settled once. Opening reserves room for
//! the settlement, so a dropped caller, a panic or a full queue can never lose an outcome.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Acceptance, AgentQuestionStore, ApprovalStore, ArtifactId, ArtifactStore, CallFilter,
    CallOutcome, ClaimedCall, Epoch, GrantStore, LedgerError, MemoryStore, StatsQuery, StatsRow,
    StoredWorkspace, Timestamp,
};
use crate::{
    call::{CallId, CallRequest},
    event::RecordedEvent,
    future::BoxFuture,
    identity::{Principal, SessionId, SessionKind, TenantId, WorkspaceId},
    ops::{BackendId, FileVersion},
    outcome::Terminal,
    path::WorkPath,
};

/// Writes the record.
pub trait Ledger: Send + Sync {
    /// Accepts a call and claims it in one step, for a process that runs what it accepts. Nothing
    /// needs to be durable yet, and nobody else can claim it. Fails when the store is down, and
    /// then the call is denied: a call that cannot be recorded does not run.
    fn open<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Box<dyn CallRecord>, LedgerError>>;

    /// Accepts a call for a worker to claim, and returns once that would survive a power cut.
    /// Repeating the same request under the same id changes nothing; a different request under a
    /// taken id is a [`super::LedgerErrorKind::Conflict`].
    fn accept<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Acceptance, LedgerError>>;

    /// Gives one worker the right to continue an accepted call: the first to claim it in the
    /// highest epoch. Every other claim is refused, with [`super::LedgerErrorKind::Superseded`]
    /// when an equal or higher epoch holds the call, and with [`super::LedgerErrorKind::Over`] when
    /// the call has its outcome.
    ///
    /// A call that an earlier claim has started and that may have changed something is not run
    /// again: the new claim settles it as `unknown` and is then refused as over. A call that only
    /// reads, or that may be repeated, is handed out again.
    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        call: CallId,
        epoch: Epoch,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ClaimedCall, LedgerError>>;

    /// Where artifacts are kept.
    fn artifacts(&self) -> Arc<dyn ArtifactStore>;

    /// The same, where what is kept counts for a tenant: a store whose room tenants share does not
    /// remove what one keeps for what another does.
    fn artifacts_of(&self, tenant: &TenantId) -> Arc<dyn ArtifactStore> {
        let _ = tenant;
        self.artifacts()
    }

    /// Where questions to people are kept.
    fn approvals(&self) -> Arc<dyn ApprovalStore>;

    /// Where questions of agents are kept. An id of one names nothing among the approvals.
    fn agent_questions(&self) -> Arc<dyn AgentQuestionStore>;

    /// Where standing approvals are kept.
    fn grants(&self) -> Arc<dyn GrantStore>;

    /// Where what agents save is kept.
    fn memories(&self) -> Arc<dyn MemoryStore>;

    /// Reads the record, if this ledger can be read back.
    fn history(&self) -> Option<Arc<dyn History>>;

    /// The version of a file in a workspace that this principal last saw in its session, if any. A
    /// principal here means the same user, agent, session and kind of session in the same tenant.
    fn last_seen<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, LedgerError>>;

    /// Notes the version of a file in a workspace that this principal saw in its session. Queued;
    /// does not wait for it to be durable.
    fn note_seen(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        path: &WorkPath,
        version: &FileVersion,
    );

    /// Where the whole output of an earlier call is kept, if some of it was left out of its result
    /// and the call was made by the same user and agent, in the same session of the same kind, in
    /// the same workspace and tenant.
    fn spilled<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        call: CallId,
    ) -> BoxFuture<'a, Result<Option<ArtifactId>, LedgerError>>;

    /// The providers whose tools a session has started calls with, as recorded, and those it has read
    /// from by way of a memory ([`MemoryStore::note_read`]), each once and in no order: at most
    /// `limit` of them, without the built-in one. Counts every principal of the session. Starts that
    /// this process has only queued may be missing.
    fn providers_used<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>>;

    /// A number that changes with each start that states what its session had read from and adds a
    /// provider to the session, and with each memory that adds one, whichever process recorded it.
    /// It changes before that start's append, or [`MemoryStore::note_read`], returns. Read several times in every call, so it must cost next to nothing; `None`
    /// where it is not known, and then [`Ledger::providers_used`] is asked.
    fn used_mark(&self, tenant: &TenantId, session: &SessionId) -> Option<u64>;

    /// Whether a text holds the value of a secret that this ledger keeps out of what it stores, as it
    /// is or thinly disguised: encoded, or cut into pieces by punctuation. A ledger that knows no
    /// secrets says no.
    fn holds_secret(&self, text: &str) -> bool {
        let _ = text;
        false
    }

    /// Waits until everything appended so far is durable.
    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// The open record of one call.
pub trait CallRecord: Send + Sync {
    /// Appends events in order. With [`Durability::Durable`], returns once they, and everything
    /// appended to this call before, would survive a power cut.
    ///
    /// A [`CallEvent::Started`](crate::CallEvent::Started) that names an approval or grants uses
    /// them up in the same transaction; such an append always waits. When one of them cannot be
    /// used (any more), neither the start nor what follows it in this append is recorded, and the
    /// append fails with [`super::LedgerErrorKind::Conflict`]; what precedes it stays. A start that
    /// states what the session has read from waits too, and fails with
    /// [`super::LedgerErrorKind::ReadMore`] when the record has another source by then. When the
    /// append fails for another reason, nothing was used.
    ///
    /// When a newer claim holds the call, every start and every durable append fails with
    /// [`super::LedgerErrorKind::Superseded`], and none of it is recorded.
    fn append(
        &self,
        events: Vec<RecordedEvent>,
        durability: Durability,
    ) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Appends the last events of the call, ending with its settlement. Never blocks and never
    /// fails because the queue is full: the room was reserved when the call was opened. Only the
    /// first settlement counts. The settlement of a superseded claim is kept as evidence, as a
    /// `settled_late` event, and is not the outcome.
    fn settle(&self, events: Vec<RecordedEvent>);

    /// Waits until the settlement is durable. Fails with [`super::LedgerErrorKind::Superseded`]
    /// when it is not the outcome, because a newer claim holds the call.
    fn settled(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// Whether an append waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Written without waiting: with the next transaction if it says what happens to a file or asks
    /// somebody, else with the call's end or a moment later. Lost with the process until then.
    Queued,
    /// Returns once it is on disk.
    Durable,
}

/// Reads the record.
pub trait History: Send + Sync {
    /// One call, if the tenant has it.
    fn call<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<StoredCall>, LedgerError>>;

    /// Calls of a tenant, newest first; with [`CallQuery::after`], oldest first. To page, go on
    /// before the last position seen, with [`CallQuery::before`].
    fn calls<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a CallQuery,
    ) -> BoxFuture<'a, Result<Vec<StoredCall>, LedgerError>>;

    /// Makes some more of what was recorded searchable; returns how much is left. A search does all
    /// of it before it looks; whoever calls this first can show how far it has got.
    fn catch_up(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The events of a call, in order.
    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, LedgerError>>;

    /// Whether a call was made in a workspace. Only there do its paths mean the same files.
    fn was_made_in<'a>(
        &'a self,
        tenant: &'a TenantId,
        call: &'a StoredCall,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            if call.workspace == *workspace || call.workspace != WorkspaceId::local() {
                return Ok(call.workspace == *workspace);
            }
            // Recorded before workspaces had ids: the id follows from what the plan says.
            let events = self.events(tenant, call.id).await?;
            let planned = events.iter().find(|event| event.kind == "planned");
            let says = |key: &str| planned.and_then(|event| event.body.get(key)?.as_str());
            let root = says("backend").zip(says("workspace"));
            Ok(root.is_some_and(|(backend, root)| {
                WorkspaceId::of_root(&BackendId::new(backend), root) == *workspace
            }))
        })
    }

    /// Calls of a tenant that were opened at or after a moment, oldest first, with everything
    /// needed to decide about them again. Starts after a position, so that a long record can be
    /// read in batches: pass the last batch's last position, and stop at an empty batch.
    fn replayable<'a>(
        &'a self,
        tenant: &'a TenantId,
        since: Timestamp,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ReplayableCall>, LedgerError>>;

    /// What these calls did to files, in the order it happened: every
    /// [`PreimageKept`](crate::CallEvent::PreimageKept),
    /// [`FileChanged`](crate::CallEvent::FileChanged),
    /// [`RowsChanged`](crate::CallEvent::RowsChanged) and
    /// [`ChangesScanned`](crate::CallEvent::ChangesScanned), and nothing else. Calls the tenant
    /// does not have add nothing.
    fn changes<'a>(
        &'a self,
        tenant: &'a TenantId,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, LedgerError>>;

    /// Sessions of a tenant, most recently active first: those of these workspaces, or of all if none
    /// is named. A session that has calls in several workspaces is listed once for each.
    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        workspaces: &'a [WorkspaceId],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSession>, LedgerError>>;

    /// The workspaces a tenant's calls were made in, most recently active first.
    fn workspaces<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredWorkspace>, LedgerError>>;

    /// Counts calls of a tenant in groups: the newest day first, or the group with the most calls.
    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a StatsQuery,
    ) -> BoxFuture<'a, Result<Vec<StatsRow>, LedgerError>>;

    /// Recomputes a tenant's hash chains and names the first bad row, if there is one.
    fn verify<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> BoxFuture<'a, Result<Verification, LedgerError>>;
}

/// Which calls to list.
#[derive(Debug, Clone)]
pub struct CallQuery {
    /// Only calls of this workspace, agent, tool and time.
    pub filter: CallFilter,
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only calls whose tool, input, paths, commands or output match these words.
    pub search: Option<String>,
    /// Only calls with this outcome.
    pub outcome: Option<CallOutcome>,
    /// Only calls recorded after this position, the oldest of them first. To follow, begin with 0 and
    /// go on from the last position seen: a call is returned only once no other can still appear
    /// before it, and however many there are, none is skipped.
    pub after: Option<u64>,
    /// Only calls recorded before this position. The next page of a list is what is before the last
    /// position of this one, whatever has been recorded since.
    pub before: Option<u64>,
    /// The most calls to return; [`CALLS_LISTED`] unless set.
    pub limit: usize,
}

/// How many calls a query returns that does not say how many.
pub const CALLS_LISTED: usize = 100;

impl Default for CallQuery {
    fn default() -> Self {
        Self {
            filter: CallFilter::default(),
            session: None,
            search: None,
            outcome: None,
            after: None,
            before: None,
            limit: CALLS_LISTED,
        }
    }
}

impl CallQuery {
    /// Whether a call is what was asked for, apart from the words of a search.
    pub fn wants(&self, call: &StoredCall) -> bool {
        let session = self.session.as_ref();
        self.filter.wants(call)
            && session.is_none_or(|session| call.session == *session)
            && self
                .outcome
                .is_none_or(|outcome| outcome.wants(call.terminal))
            && self.after.is_none_or(|after| call.position > after)
            && self.before.is_none_or(|before| call.position < before)
    }
}

/// A call as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCall {
    /// Its position in the record; grows with every call.
    pub position: u64,
    /// The call.
    pub id: CallId,
    /// Who asked, as recorded.
    pub user: String,
    /// The agent, as recorded.
    pub agent: String,
    /// The conversation.
    pub session: SessionId,
    /// What kind of conversation it was.
    pub session_kind: SessionKind,
    /// The workspace it was to run in.
    pub workspace: WorkspaceId,
    /// What people know that workspace by, if the call had a plan.
    pub workspace_shown: Option<String>,
    /// The tool's name as the model wrote it.
    pub asked_tool: String,
    /// The tool as `provider/name`, if the name resolved.
    pub tool: Option<String>,
    /// When it was opened.
    pub opened: Timestamp,
    /// How it ended; absent while it is open.
    pub terminal: Option<Terminal>,
    /// When it was settled.
    pub settled: Option<Timestamp>,
    /// A one-line summary: the command, the path, the failure.
    pub summary: String,
}

/// An event as recorded: its kind and its stored form.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// Its number within the call, from 1.
    pub sequence: u64,
    /// The position of the row that has it; several events may be in one row.
    pub record: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The name of the event.
    pub kind: String,
    /// The event's stored form, secrets redacted.
    pub body: Value,
}

/// A recorded call with everything needed to decide about it again. Bodies are in their stored
/// form, secrets redacted.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayableCall {
    /// The call.
    pub call: StoredCall,
    /// Who asked, in full.
    pub principal: Arc<Principal>,
    /// The request: the body of `opened`.
    pub opened: Value,
    /// Its plan: the body of `planned`; absent when it never had one.
    pub planned: Option<Value>,
    /// The first decision about it: the body of `decided`.
    pub decided: Option<Value>,
    /// What a person said: the body of the last `approval_answered`.
    pub answered: Option<Value>,
}

/// A session as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The session.
    pub id: SessionId,
    /// What kind it is.
    pub kind: SessionKind,
    /// The workspace that these calls of it were made in.
    pub workspace: WorkspaceId,
    /// The agent whose conversation it is.
    pub agent: String,
    /// When its first call was opened.
    pub first: Timestamp,
    /// When its last call was opened.
    pub last: Timestamp,
    /// How many calls it has.
    pub calls: u64,
}

/// The result of verifying a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verification {
    /// Every record is as it was written.
    Intact {
        /// How many records.
        records: u64,
    },
    /// A record is not what was written.
    Broken {
        /// The first bad record.
        sequence: u64,
        /// What is wrong with it.
        reason: String,
    },
}
