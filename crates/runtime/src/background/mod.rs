//! The processes that sessions keep beyond a call: a table, and one owner task for each process.
//!
//! A process belongs to one session and cannot be found by another. It ends when told to, when its
//! time is up, when it has not been used for long, with its session, and with the runtime.
//! Everything has a cap: processes per session, processes in total, bytes of a log, time. This
//! module does not decide who may do what to a process; the plan does, and `guard/background.rs`
//! enforces it.

mod kept;
mod log;
mod owner;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use haft_contract::{
    ErrorKind, Principal, ToolError, WorkspaceId,
    access::RunningCommand,
    background::{KeepRequest, ProcessId},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::kept::BackgroundChild;
use self::{kept::ProcessDescription, owner::Lease};
use crate::{limits::ProcessLimits, session_key::SessionKey};

/// How long to wait for processes to end when a session or the runtime ends.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The processes of all sessions. Dropping it ends them.
pub(crate) struct Processes {
    table: Arc<ProcessTable>,
    limits: ProcessLimits,
    closing: CancellationToken,
}

#[derive(Default)]
struct ProcessTable(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: HashMap<SessionKey, SessionProcesses>,
    /// Set once the runtime ends: no more processes are kept.
    closed: bool,
}

#[derive(Default)]
struct SessionProcesses {
    last: u32,
    processes: BTreeMap<ProcessId, Arc<BackgroundChild>>,
}

impl Processes {
    pub(crate) fn new(limits: ProcessLimits) -> Self {
        Self {
            table: Arc::default(),
            limits,
            closing: CancellationToken::new(),
        }
    }

    /// Keeps a process for a session. One that cannot be kept is ended.
    pub(crate) fn keep(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        running: RunningCommand,
        keep: KeepRequest,
    ) -> Result<ProcessId, ToolError> {
        let session = SessionKey::of(principal, workspace);
        let mut state = self.table.lock();
        state.make_room(&session, &self.limits)?;
        let place = state.sessions.entry(session.clone()).or_default();
        place.last += 1;
        let id = ProcessId::new(place.last);
        let kept = Arc::new(BackgroundChild::new(
            ProcessDescription {
                id,
                running,
                terminal: keep.terminal,
                output: keep.output,
                log_bytes: self.limits.log_bytes,
            },
            keep.process.controls(),
            self.closing.child_token(),
        ));
        place.processes.insert(id, Arc::clone(&kept));
        drop(state);
        let lease = Lease {
            until: keep.lifetime.map(|lifetime| Instant::now() + lifetime),
            idle: self.limits.idle,
        };
        let table = Arc::downgrade(&self.table);
        let finished = self.limits.finished;
        let closing = self.closing.clone();
        tokio::spawn(async move {
            owner::own(keep.process, kept, lease).await;
            // Its log is kept for a while longer.
            tokio::select! {
                () = closing.cancelled() => {}
                () = tokio::time::sleep(finished) => {}
            }
            ProcessTable::forget(&table, &session, id);
        });
        Ok(id)
    }

    /// A process of a session.
    pub(crate) fn find(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        id: ProcessId,
    ) -> Result<Arc<BackgroundChild>, ToolError> {
        let state = self.table.lock();
        let found = state
            .sessions
            .get(&SessionKey::of(principal, workspace))
            .and_then(|session| session.processes.get(&id));
        let kept = found.cloned().ok_or_else(|| {
            ToolError::new(
                ErrorKind::NotFound,
                format!("this session has no process `{id}`"),
            )
            .at("/id")
            .hint("`process` with action `list` shows what the session keeps")
        })?;
        kept.note_asked();
        Ok(kept)
    }

    /// Every process of a session, oldest first.
    pub(crate) fn of(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
    ) -> Vec<Arc<BackgroundChild>> {
        let state = self.table.lock();
        let session = state.sessions.get(&SessionKey::of(principal, workspace));
        let kept = session.map(|session| session.processes.values().cloned().collect());
        kept.unwrap_or_default()
    }

    /// Whether a session keeps a process that still runs.
    pub(crate) fn keeps_running(&self, session: &SessionKey) -> bool {
        let state = self.table.lock();
        let kept = state.sessions.get(session);
        kept.is_some_and(|kept| kept.processes.values().any(|process| !process.has_ended()))
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget(&self, principal: &Principal, workspace: &WorkspaceId, id: ProcessId) {
        let session = SessionKey::of(principal, workspace);
        ProcessTable::forget(&Arc::downgrade(&self.table), &session, id);
    }

    /// Ends every process of a session, in every workspace, and forgets the session. Returns how
    /// many did not end in time.
    pub(crate) async fn end_session(&self, principal: &Principal) -> usize {
        let mut kept = Vec::new();
        self.table.lock().sessions.retain(|whose, session| {
            let ends = whose.is_session_of(principal);
            if ends {
                kept.extend(std::mem::take(&mut session.processes).into_values());
            }
            !ends
        });
        end(kept).await
    }

    /// Ends every process of every session; no more are kept from now on. Returns how many did not
    /// end in time.
    pub(crate) async fn end_all(&self) -> usize {
        let sessions = {
            let mut state = self.table.lock();
            state.closed = true;
            std::mem::take(&mut state.sessions)
        };
        let kept = sessions
            .into_values()
            .flat_map(|session| session.processes.into_values())
            .collect();
        let left = end(kept).await;
        self.closing.cancel();
        left
    }

    /// How many kept processes are still running.
    pub(crate) fn running(&self) -> usize {
        let state = self.table.lock();
        state.all().filter(|kept| !kept.has_ended()).count()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl ProcessTable {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a process that has ended, and with its last process the session.
    fn forget(table: &Weak<Self>, session: &SessionKey, id: ProcessId) {
        let Some(table) = table.upgrade() else {
            return;
        };
        let mut state = table.lock();
        if let Some(processes) = state.sessions.get_mut(session) {
            processes
                .processes
                .retain(|known, kept| *known != id || !kept.has_ended());
        }
    }
}

impl State {
    fn all(&self) -> impl Iterator<Item = &Arc<BackgroundChild>> {
        self.sessions
            .values()
            .flat_map(|session| session.processes.values())
    }

    /// Makes sure that one more process fits. Drops the log of an ended process if that makes room.
    fn make_room(&mut self, session: &SessionKey, limits: &ProcessLimits) -> Result<(), ToolError> {
        if self.closed {
            let message = "the runtime is ending and keeps no more processes";
            return Err(ToolError::new(ErrorKind::Unavailable, message));
        }
        let own = self.sessions.get(session).map_or(0, SessionProcesses::len);
        if own >= limits.per_session && !self.forget_oldest_ended(|of| of == session) {
            return Err(full(limits.per_session, "this session keeps"));
        }
        let of_tenant = |of: &SessionKey| of.tenant() == session.tenant();
        let tenants = self.sessions.iter().filter(|(of, _)| of_tenant(of));
        let tenants: usize = tenants.map(|(_, processes)| processes.len()).sum();
        if tenants >= limits.per_tenant && !self.forget_oldest_ended(of_tenant) {
            return Err(full(limits.per_tenant, "this tenant keeps"));
        }
        if self.all().count() >= limits.in_all && !self.forget_oldest_ended(|_| true) {
            return Err(full(limits.in_all, "all sessions together keep"));
        }
        Ok(())
    }

    fn forget_oldest_ended(&mut self, whose: impl Fn(&SessionKey) -> bool) -> bool {
        let ended = self
            .sessions
            .iter()
            .filter(|(session, _)| whose(session))
            .flat_map(|(session, processes)| {
                let ended = processes.processes.values().filter(|kept| kept.has_ended());
                ended.map(move |kept| (kept.last_asked(), session.clone(), kept.id))
            })
            .min_by_key(|(asked, ..)| *asked);
        let Some((_, session, id)) = ended else {
            return false;
        };
        self.sessions
            .get_mut(&session)
            .is_some_and(|processes| processes.processes.remove(&id).is_some())
    }
}

impl SessionProcesses {
    fn len(&self) -> usize {
        self.processes.len()
    }
}

/// Ends processes concurrently. Returns how many did not end in time.
async fn end(kept: Vec<Arc<BackgroundChild>>) -> usize {
    for process in &kept {
        process.stop.cancel();
    }
    let all = join_all(kept.iter().map(|process| process.ended()));
    let _ = tokio::time::timeout(END_LIMIT, all).await;
    kept.iter().filter(|process| !process.has_ended()).count()
}

fn full(limit: usize, who: &str) -> ToolError {
    ToolError::new(
        ErrorKind::LimitExceeded,
        format!("{who} {limit} processes, which is the limit"),
    )
    .hint("end one with `process` and action `kill`")
}
