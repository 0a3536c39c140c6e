//! What each session has read from. A session has the label of a source from the moment a call of it
//! starts, which is before anything of the source can reach the agent.
//!
//! The record is where labels are kept, and several processes may share it: whatever is not in memory
//! is read from there, and read again when the record's mark of the session has changed. What cannot
//! be read denies. In memory a session is one small set that its calls share; what no call holds is
//! forgotten when there are many.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use haft_contract::{
    ErrorKind, Label, Labels, Principal, SessionId, TenantId, ToolError, host::Ledger,
    label::MAX_PROVIDERS,
};
use tokio_util::sync::CancellationToken;

use crate::pipeline::cancelled;

/// How many sessions are remembered, beside those with calls in flight.
const MAX_SESSIONS: usize = 4096;

/// How long the record has to say what a session has read from. Longer than a store takes to find out
/// that it is busy: its own reason is the better one.
const RECALL_WAIT: Duration = Duration::from_secs(30);

/// The sessions of one engine.
#[derive(Default)]
pub(crate) struct SessionLabels(Mutex<HashMap<(TenantId, SessionId), Arc<Session>>>);

/// What one session has read from. Calls hold it for as long as they last, and one that is held is
/// not forgotten, so there is never a second one of the same session.
#[derive(Default)]
pub(crate) struct Session {
    known: Mutex<KnownLabels>,
    /// Held by the one call that asks the record; the others wait for what it finds.
    asking: tokio::sync::Mutex<()>,
}

/// What is known of a session.
#[derive(Default)]
struct KnownLabels {
    labels: Labels,
    /// The record's mark before it was read last; none where that has to be done.
    mark: Option<u64>,
}

impl Session {
    /// What it has read from by now, as far as this process knows.
    pub(crate) fn labels(&self) -> Labels {
        self.lock().labels.clone()
    }

    /// Adds a source.
    pub(crate) fn add(&self, label: Label) {
        let mut known = self.lock();
        known.labels = known.labels.with(label);
    }

    /// Has the record read again, whatever its mark says: a start was refused that another process
    /// was ahead of, and the mark changes only after that.
    pub(crate) fn doubt(&self) {
        self.lock().mark = None;
    }

    /// Waits until what the record says by now is among its labels, within the limit. A call that is
    /// cancelled does not wait for the record, also not when another call of the session asks it.
    pub(crate) async fn catch_up(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        if self.is_current(mark(principal, ledger)) {
            return Ok(());
        }
        let mut recalling = pin!(self.recall(principal, ledger));
        // A record in memory answers at once, and nobody needs a clock to wait by.
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

    /// Adds what the record says, unless another call did meanwhile.
    async fn recall(&self, principal: &Principal, ledger: &dyn Ledger) -> Result<(), ToolError> {
        let _turn = self.asking.lock().await;
        // Before reading: what is recorded after this changes the mark once more.
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
    /// The session of a principal. A session is the same whoever asks in it, so that nobody loses
    /// what it has read by asking under another name.
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

/// Without knowing what a session has read from, nothing of it may run.
fn not_looked_up(why: &str) -> ToolError {
    let message = format!(
        "what this session has read from cannot be looked up, so the call is not run: {why}"
    );
    ToolError::new(ErrorKind::Unavailable, message).hint("`haft doctor` checks the ledger")
}

/// The record's mark of a session.
fn mark(principal: &Principal, ledger: &dyn Ledger) -> Option<u64> {
    ledger.used_mark(&principal.tenant, &principal.session)
}
