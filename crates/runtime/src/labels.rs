//! What each session has read from. A session gets the label of a source when a call to that source
//! starts, which is before any of its data can reach the agent.
//!
//! Labels are kept in the record, which several processes may share. Those not in memory are read
//! from there, and read again when the record's mark for the session has changed. If they cannot be
//! read, the call is denied. In memory a session is one small set shared by its calls; when there
//! are many sessions, those without calls are forgotten.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use haft_contract::{
    ErrorKind, Label, Labels, Principal, SessionId, TenantId, ToolError, host::Ledger,
    label::MAX_PROVIDERS, surface::NextStep,
};
use tokio_util::sync::CancellationToken;

use crate::{halt::cancelled, outgoing::Outgoing};

/// How many sessions are remembered, in addition to those with calls in flight.
const MAX_SESSIONS: usize = 4096;

/// How long the record may take to return what a session has read from. Longer than a store takes
/// to report that it is busy, because its own reason is the better one.
const RECALL_WAIT: Duration = Duration::from_secs(30);

/// All sessions of one engine.
#[derive(Default)]
pub(crate) struct SessionLabels(Mutex<HashMap<(TenantId, SessionId), Arc<Session>>>);

/// What one session has read from. Calls hold it while they last, and a held session is not
/// forgotten, so a session is never in memory twice.
#[derive(Default)]
pub(crate) struct Session {
    known: Mutex<KnownLabels>,
    /// Held by the one call that queries the record; the others wait for its result.
    asking: tokio::sync::Mutex<()>,
    /// What it has sent to hosts.
    outgoing: Mutex<Outgoing>,
}

#[derive(Default)]
struct KnownLabels {
    labels: Labels,
    /// The record's mark from before it was last read; `None` if it must be read.
    mark: Option<u64>,
}

impl Session {
    /// What it has read from so far, as far as this process knows.
    pub(crate) fn labels(&self) -> Labels {
        self.lock().labels.clone()
    }

    /// Adds a source.
    pub(crate) fn add(&self, label: Label) {
        let mut known = self.lock();
        known.labels = known.labels.with(label);
    }

    /// What it has sent to hosts, as far as this process knows.
    pub(crate) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forces the record to be read again, whatever its mark says: a start was refused because
    /// another process was ahead, and the mark changes only after that.
    pub(crate) fn doubt(&self) {
        self.lock().mark = None;
    }

    /// Waits until the session has every label the record has now, within the time limit. A
    /// cancelled call does not wait, not even when another call of the session is reading the
    /// record.
    pub(crate) async fn catch_up(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        if self.is_current(mark(principal, ledger)) {
            return Ok(());
        }
        // Boxed, because most calls need nothing from the record.
        Box::pin(self.recall_in_time(principal, ledger, cancel)).await
    }

    async fn recall_in_time(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let mut recalling = pin!(self.recall(principal, ledger));
        // An in-memory record answers at once, and needs no timer.
        if let Some(recalled) = (&mut recalling).now_or_never() {
            return recalled;
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            recalled = recalling => recalled,
            () = tokio::time::sleep(RECALL_WAIT) => {
                let why = format!("the record has not answered for {RECALL_WAIT:?}");
                Err(not_looked_up(&why))
            }
        }
    }

    /// Adds what the record says, unless another call has done so meanwhile.
    async fn recall(&self, principal: &Principal, ledger: &dyn Ledger) -> Result<(), ToolError> {
        let _turn = self.asking.lock().await;
        // Before reading: anything recorded after this changes the mark again.
        let mark = mark(principal, ledger);
        if self.is_current(mark) {
            return Ok(());
        }
        let used = ledger.providers_used(&principal.tenant, &principal.session, MAX_PROVIDERS);
        let used = used
            .await
            .map_err(|error| not_looked_up(&error.to_string()))?;
        let mut known = self.lock();
        for label in Labels::of_providers(&used).iter() {
            known.labels = known.labels.with(label.clone());
        }
        known.mark = mark;
        Ok(())
    }

    fn is_current(&self, mark: Option<u64>) -> bool {
        mark.is_some() && self.lock().mark == mark
    }

    fn lock(&self) -> MutexGuard<'_, KnownLabels> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionLabels {
    /// The session of a principal. A session is the same for everyone in it, so that nobody can
    /// shed what it has read by asking under another name.
    pub(crate) async fn of(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<Arc<Session>, ToolError> {
        let session = self.held(principal);
        session.catch_up(principal, ledger, cancel).await?;
        Ok(session)
    }

    fn held(&self, principal: &Principal) -> Arc<Session> {
        let key = (principal.tenant.clone(), principal.session.clone());
        let mut sessions = self.lock();
        if let Some(known) = sessions.get(&key) {
            return Arc::clone(known);
        }
        if sessions.len() >= MAX_SESSIONS {
            sessions.retain(|_, session| Arc::strong_count(session) > 1);
        }
        Arc::clone(sessions.entry(key).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(TenantId, SessionId), Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// If it is unknown what a session has read from, none of its calls may run.
fn not_looked_up(why: &str) -> ToolError {
    let message = format!(
        "Haft cannot look up what this session has read from, so it does not run the call: {why}"
    );
    ToolError::new(ErrorKind::Unavailable, message).hint(NextStep::CheckRecord.text())
}

/// The record's mark for a session.
fn mark(principal: &Principal, ledger: &dyn Ledger) -> Option<u64> {
    ledger.used_mark(&principal.tenant, &principal.session)
}
