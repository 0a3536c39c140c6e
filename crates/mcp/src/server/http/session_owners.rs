//! Whose each session is. A session id travels in a header and may be seen by others than its client;
//! whoever brings it with another credential gets nothing by it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::MAX_SESSIONS;
use crate::server::approve::CallOwner;

/// The owner of every session that is open.
#[derive(Default)]
pub(super) struct SessionOwners(Mutex<HashMap<String, CallOwner>>);

impl SessionOwners {
    /// Whether a caller may use a session. One that nobody began is left to the protocol, which does not
    /// know it either.
    pub(super) fn may_use(&self, session: &str, caller: CallOwner) -> bool {
        let owners = self.lock();
        owners.get(session).is_none_or(|owner| *owner == caller)
    }

    /// Notes whose a new session is, and forgets those that have ended once there are many.
    pub(super) fn begin(&self, session: &str, owner: CallOwner, is_open: impl Fn(&str) -> bool) {
        let mut owners = self.lock();
        if owners.len() >= MAX_SESSIONS {
            owners.retain(|session, _| is_open(session));
        }
        owners.insert(session.to_owned(), owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CallOwner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
