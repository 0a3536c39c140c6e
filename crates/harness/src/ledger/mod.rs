//! An in-memory ledger that follows the contract: durable and queued appends differ, a crash loses
//! what was only queued, and a store that is down says so.
//!
//! It counts durable commits, so that a test can tell what was awaited. The real ledgers are in
//! `haft-ledger`. Read next: `record` for how events become rows, `artifacts` for kept bytes.

mod accepted;
mod agent_questions;
mod approvals;
mod artifacts;
mod grants;
mod history;
mod memories;
mod open_call;
mod record;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use haft_contract::{
    BoxFuture, CallId, CallRequest, Labels, Principal, ProviderId, SessionId, TenantId, WorkPath,
    WorkspaceId,
    event::{CallEvent, RecordedEvent},
    host::{
        Acceptance, AgentQuestionStore, ApprovalStore, ArtifactId, ArtifactStore, CallRecord,
        ClaimedCall, Epoch, GrantStore, History, Ledger, LedgerError, LedgerErrorKind, MemoryStore,
        Timestamp,
    },
    memory::Memory,
    ops::FileVersion,
};
use serde_json::Value;

pub use artifacts::MemoryArtifacts;

use self::{
    accepted::AcceptedCalls, agent_questions::AgentQuestions, approvals::Approvals, grants::Grants,
    open_call::OpenCall,
};

/// The most rows kept; a test that writes more is broken.
pub const MAX_ROWS: usize = 1_000_000;

/// A ledger in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryLedger(Arc<MemoryState>);

#[derive(Default)]
struct MemoryState {
    state: Mutex<State>,
    down: AtomicBool,
    hangs: AtomicBool,
    commits: AtomicU64,
    artifacts: MemoryArtifacts,
}

#[derive(Default)]
struct State {
    calls: Vec<CallRow>,
    rows: Vec<Row>,
    /// Rows before this index would survive a power cut.
    durable: usize,
    seen: BTreeMap<SeenKey, FileVersion>,
    approvals: Approvals,
    agent_questions: AgentQuestions,
    grants: Grants,
    accepted: AcceptedCalls,
    /// What each session has used, except for built-ins.
    used: BTreeMap<(TenantId, SessionId), BTreeSet<String>>,
    memories: Vec<Memory>,
    /// What each session has read from by way of a memory.
    memory_sources: BTreeMap<(TenantId, SessionId), BTreeSet<String>>,
}

/// The file's owner as one string, and its path.
type SeenKey = (String, String);

#[derive(Clone)]
struct CallRow {
    id: CallId,
    principal: Arc<Principal>,
    workspace: WorkspaceId,
    asked_tool: String,
    opened: Timestamp,
    settled: bool,
}

/// One record of a tenant's chain.
#[derive(Clone)]
struct Row {
    tenant: String,
    sequence: u64,
    call: CallId,
    at: Timestamp,
    kind: &'static str,
    body: Value,
    hash: [u8; 32],
}

impl MemoryLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the store unreachable, or reachable again.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::SeqCst);
    }

    /// Makes looking up what a session has used hang forever, as on a broken disk.
    pub fn set_hanging(&self, hangs: bool) {
        self.0.hangs.store(hangs, Ordering::SeqCst);
    }

    /// How many times a caller waited for durability.
    pub fn durable_commits(&self) -> u64 {
        self.0.commits.load(Ordering::SeqCst)
    }

    /// The kinds of the rows of a call, in order.
    pub fn kinds(&self, call: CallId) -> Vec<&'static str> {
        let state = self.lock();
        let of_call = state.rows.iter().filter(|row| row.call == call);
        of_call.map(|row| row.kind).collect()
    }

    /// How many artifacts are kept.
    pub fn kept_artifacts(&self) -> usize {
        self.0.artifacts.count()
    }

    /// Every opened call that is not settled.
    pub fn open_calls(&self) -> Vec<CallId> {
        let state = self.lock();
        let open = state.calls.iter().filter(|call| !call.settled);
        open.map(|call| call.id).collect()
    }

    /// The ledger as it would be after a power cut and a restart: entries that were only queued are
    /// gone, and open calls are settled as unknown.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        let state = self.lock();
        let rows: Vec<Row> = state.rows[..state.durable].to_vec();
        let mut calls: Vec<CallRow> = state.calls.clone();
        calls.retain(|call| rows.iter().any(|row| row.call == call.id));
        let mut survived = State {
            durable: rows.len(),
            rows,
            calls,
            seen: state.seen.clone(),
            agent_questions: state.agent_questions.clone(),
            approvals: state.approvals.clone(),
            grants: state.grants.clone(),
            accepted: state.accepted.clone(),
            used: BTreeMap::new(),
            memories: state.memories.clone(),
            memory_sources: state.memory_sources.clone(),
        };
        let started = survived.rows.iter().filter(|row| row.kind == "started");
        let started: Vec<CallId> = started.map(|row| row.call).collect();
        for call in started {
            survived.note_used(call);
        }
        for index in 0..survived.calls.len() {
            let id = survived.calls[index].id;
            let mut of_call = survived.rows.iter().filter(|row| row.call == id);
            let Some(last) = of_call.next_back().cloned() else {
                continue;
            };
            if last.kind != "settled" && survived.accepted.has(id) {
                // The next claimant continues with it.
                continue;
            }
            survived.calls[index].settled = true;
            if last.kind != "settled" {
                let body = record::unknown(id);
                survived.push(&last.tenant, id, last.at, "settled", body);
            }
        }
        survived.durable = survived.rows.len();
        Self(Arc::new(MemoryState {
            state: Mutex::new(survived),
            artifacts: self.0.artifacts.clone(),
            ..MemoryState::default()
        }))
    }

    /// Changes a stored row behind the ledger's back, to show that verification finds it.
    pub fn tamper(&self, tenant: &str, sequence: u64) {
        let mut state = self.lock();
        let row = state
            .rows
            .iter_mut()
            .find(|row| row.tenant == tenant && row.sequence == sequence)
            .expect("a row to tamper with");
        row.body = Value::String("tampered".to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reachable(&self) -> Result<(), LedgerError> {
        if self.0.down.load(Ordering::SeqCst) {
            return Err(LedgerError::new(
                LedgerErrorKind::Unavailable,
                "the ledger cannot be reached",
            ));
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), LedgerError> {
        self.reachable()?;
        let mut state = self.lock();
        state.durable = state.rows.len();
        self.0.commits.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl State {
    fn push(&mut self, tenant: &str, call: CallId, at: Timestamp, kind: &'static str, body: Value) {
        assert!(self.rows.len() < MAX_ROWS, "the in-memory ledger is full");
        let last = self.rows.iter().rev().find(|row| row.tenant == tenant);
        let (sequence, previous) = last.map_or((1, [0; 32]), |row| (row.sequence + 1, row.hash));
        let hash = record::chain(&previous, sequence, call, at, kind, &body);
        self.rows.push(Row {
            tenant: tenant.to_owned(),
            sequence,
            call,
            at,
            kind,
            body,
            hash,
        });
    }

    /// Records what a started call used.
    fn note_used(&mut self, call: CallId) {
        let rows = || self.rows.iter().filter(|row| row.call == call);
        let resolved = rows().rfind(|row| row.kind == "resolved");
        let tool = resolved.and_then(|row| row.body["tool"].as_str());
        let provider = tool.and_then(|tool| Some(tool.split_once('/')?.0));
        let call = self.calls.iter().rfind(|row| row.id == call);
        if let (Some(provider), Some(call)) = (provider, call)
            && provider != ProviderId::builtin().as_str()
        {
            let key = session_key(&call.principal.tenant, &call.principal.session);
            let used = self.used.entry(key).or_default();
            used.insert(provider.to_owned());
        }
    }

    /// What a session has used.
    fn providers_used(&self, tenant: &TenantId, session: &SessionId) -> Vec<String> {
        let key = session_key(tenant, session);
        let sources = [self.used.get(&key), self.memory_sources.get(&key)];
        let used: BTreeSet<&String> = sources.into_iter().flatten().flatten().collect();
        used.into_iter().cloned().collect()
    }

    /// Compares what a session has read with the labels a start was judged with.
    fn compare(&self, principal: &Principal, judged_with: &Labels) -> Result<(), LedgerError> {
        let used = self.providers_used(&principal.tenant, &principal.session);
        let read_from = Labels::of_providers(&used);
        match read_from.iter().find(|one| !judged_with.contains(one)) {
            Some(source) => Err(LedgerError::new(
                LedgerErrorKind::ReadMore,
                format!("the session has read from {source} meanwhile"),
            )),
            None => Ok(()),
        }
    }

    /// Uses up everything a start depends on, or nothing.
    fn use_up(
        &mut self,
        principal: &Principal,
        events: &[RecordedEvent],
    ) -> Result<(), LedgerError> {
        for happened in events {
            let CallEvent::Started {
                approval,
                grants,
                read_from,
                ..
            } = &happened.event
            else {
                continue;
            };
            if let Some(judged_with) = read_from {
                self.compare(principal, judged_with)?;
            }
            self.grants.can_use(grants, principal, happened.at)?;
            if let Some(approval) = approval {
                let call = happened.call;
                self.approvals
                    .use_up(*approval, principal, call, happened.at)?;
            }
            self.grants.use_up(grants);
        }
        Ok(())
    }

    fn append(&mut self, tenant: &str, events: &[RecordedEvent]) {
        for happened in events {
            // Opening the record already wrote this row, with the request.
            if happened.event.is_recorded() && happened.event.kind() != "opened" {
                let body = record::body(&happened.event);
                let kind = happened.event.kind();
                self.push(tenant, happened.call, happened.at, kind, body);
                if kind == "started" {
                    self.note_used(happened.call);
                }
            }
        }
    }
}

impl Ledger for MemoryLedger {
    fn open<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Box<dyn CallRecord>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            self.lock().open(request, at);
            let tenant = &request.principal.tenant;
            Ok(Box::new(OpenCall::new(self, tenant, request.id)) as Box<dyn CallRecord>)
        })
    }

    fn accept<'a>(
        &'a self,
        request: &'a CallRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Acceptance, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let acceptance = self.lock().accept(request, at)?;
            self.commit()?;
            Ok(acceptance)
        })
    }

    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        call: CallId,
        epoch: Epoch,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ClaimedCall, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let claimed = self.lock().claim(tenant, call, epoch, at);
            self.commit()?;
            let mut record = OpenCall::new(self, tenant, call);
            record.claim = Some(epoch);
            Ok(ClaimedCall {
                request: claimed?,
                record: Box::new(record),
            })
        })
    }

    fn artifacts(&self) -> Arc<dyn ArtifactStore> {
        Arc::new(self.0.artifacts.clone())
    }

    fn approvals(&self) -> Arc<dyn ApprovalStore> {
        Arc::new(self.clone())
    }

    fn agent_questions(&self) -> Arc<dyn AgentQuestionStore> {
        Arc::new(self.clone())
    }

    fn grants(&self) -> Arc<dyn GrantStore> {
        Arc::new(self.clone())
    }

    fn memories(&self) -> Arc<dyn MemoryStore> {
        Arc::new(self.clone())
    }

    fn history(&self) -> Option<Arc<dyn History>> {
        Some(Arc::new(self.clone()))
    }

    fn last_seen<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let key = seen_key(principal, workspace, path);
            Ok(self.lock().seen.get(&key).cloned())
        })
    }

    fn note_seen(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        path: &WorkPath,
        version: &FileVersion,
    ) {
        let key = seen_key(principal, workspace, path);
        self.lock().seen.insert(key, version.clone());
    }

    fn spilled<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        call: CallId,
    ) -> BoxFuture<'a, Result<Option<ArtifactId>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let is_theirs = |row: &CallRow| {
                row.id == call
                    && whose(&row.principal) == whose(principal)
                    && row.workspace == *workspace
            };
            if !state.calls.iter().any(is_theirs) {
                return Ok(None);
            }
            let mut rows = state.rows.iter().filter(|row| row.call == call);
            Ok(rows.find_map(|row| record::spilled(&row.body)))
        })
    }

    fn providers_used<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, LedgerError>> {
        Box::pin(async move {
            if self.0.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            self.reachable()?;
            let mut used = self.lock().providers_used(tenant, session);
            used.truncate(limit);
            Ok(used)
        })
    }

    /// The number of providers used only grows, so it serves as the mark.
    fn used_mark(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        u64::try_from(self.lock().providers_used(tenant, session).len()).ok()
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move { self.commit() })
    }
}

fn session_key(tenant: &TenantId, session: &SessionId) -> (TenantId, SessionId) {
    (tenant.clone(), session.clone())
}

fn seen_key(principal: &Principal, workspace: &WorkspaceId, path: &WorkPath) -> SeenKey {
    (
        format!("{}\n{workspace}", whose(principal)),
        path.to_string(),
    )
}

/// Identifies who may get something back: the same user and agent in the same session.
fn whose(principal: &Principal) -> String {
    let Principal {
        tenant,
        user,
        agent,
        session,
        session_kind,
        ..
    } = principal;
    // No identifier contains a line break.
    format!("{tenant}\n{user}\n{agent}\n{session}\n{session_kind}")
}
