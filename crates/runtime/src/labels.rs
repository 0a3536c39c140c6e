//! What each session has read from. A session has the label of a source from the moment a call of it
//! starts, which is before anything of the source can reach the agent.
//!
//! The record is where labels are kept: whatever is not in memory is read from there, once for each
//! session, and what cannot be read denies. In memory a session is one small set that its calls
//! share; what no call holds is forgotten when there are many.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, TryFutureExt as _};
use haft_contract::{
    ErrorKind, Label, Labels, Principal, ProviderId, SessionId, TenantId, ToolError, host::Ledger,
    label::MAX_LABELS,
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::pipeline::cancelled;

/// How many sessions are remembered, beside those with calls in flight.
const MAX_SESSIONS: usize = 4096;

/// Providers that have no label, and one more than there may be labels.
const MOST_PROVIDERS: usize = MAX_LABELS + 16;

/// How long the record has to say what a session has read from. Longer than a store takes to find out
/// that it is busy: its own reason is the better one.
const RECALL_WAIT: Duration = Duration::from_secs(30);

/// The sessions of one runtime.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<(TenantId, SessionId), Arc<Session>>>);

/// What one session has read from. Calls hold it for as long as they last, and one that is held is
/// not forgotten, so there is never a second one of the same session.
#[derive(Default)]
pub(crate) struct Session {
    labels: Mutex<Labels>,
    /// Set once what the record says is among them.
    recalled: OnceCell<()>,
}

impl Session {
    /// What it has read from by now.
    pub(crate) fn labels(&self) -> Labels {
        self.lock().clone()
    }

    /// Adds a source.
    pub(crate) fn add(&self, label: Label) {
        let mut labels = self.lock();
        *labels = labels.with(label);
    }

    fn lock(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until what the record says is among its labels, within the limit.
    async fn recalled(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let recalling = self
            .recalled
            .get_or_try_init(|| self.recall(principal, ledger));
        let mut recalling = pin!(recalling.map_ok(|()| ()));
        // All but the first calls of a session find it there, and need no clock to wait by.
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

    /// Adds what the record says.
    async fn recall(&self, principal: &Principal, ledger: &dyn Ledger) -> Result<(), ToolError> {
        let used = ledger.used(&principal.tenant, &principal.session, MOST_PROVIDERS);
        let used = used
            .await
            .map_err(|error| not_looked_up(&error.to_string()))?;
        for label in labels(&used).iter() {
            self.add(label.clone());
        }
        Ok(())
    }
}

impl Sessions {
    /// The session of a principal. A session is the same whoever asks in it, so that nobody loses
    /// what it has read by asking under another name. A call that is cancelled does not wait for the
    /// record, also not when another call of the session asks it.
    pub(crate) async fn of(
        &self,
        principal: &Principal,
        ledger: &dyn Ledger,
        cancel: &CancellationToken,
    ) -> Result<Arc<Session>, ToolError> {
        let session = self.held(principal);
        session.recalled(principal, ledger, cancel).await?;
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

/// The labels of providers as they are recorded. What is no provider, or one too many, may be any.
fn labels(providers: &[String]) -> Labels {
    if providers.len() >= MOST_PROVIDERS {
        return Labels::NONE.with(Label::anything());
    }
    let label = |provider: &String| match ProviderId::parse(provider) {
        Ok(provider) => Label::of(&provider),
        Err(_) => Some(Label::anything()),
    };
    providers.iter().filter_map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_on_record_become_labels_and_what_is_none_may_be_any() {
        let of = |providers: &[&str]| {
            let providers: Vec<String> = providers.iter().map(ToString::to_string).collect();
            labels(&providers).to_string()
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["builtin", "script", "embedded"]), "");
        assert_eq!(of(&["mcp__b", "builtin", "mcp__a"]), "mcp:a, mcp:b");
        assert_eq!(of(&["mcp__a", "[redacted]"]), "anything");
        let many: Vec<String> = (0..MOST_PROVIDERS).map(|n| format!("p{n}")).collect();
        assert_eq!(labels(&many).to_string(), "anything");
    }
}
