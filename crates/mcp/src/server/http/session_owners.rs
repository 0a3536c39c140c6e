//! Who owns each session. A session id travels in a header, and others than its client may see it;
//! it is useless with another credential.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::MAX_SESSIONS;
use crate::server::approve::CallOwner;

/// The owner of every open session.
#[derive(Default)]
pub(super) struct SessionOwners(Mutex<HashMap<String, CallOwner>>);

impl SessionOwners {
    /// Whether a caller may use a session. An unknown session is left to the protocol, which does
    /// not know it either.
    pub(super) fn may_use(&self, session: &str, caller: CallOwner) -> bool {
        let owners = self.lock();
        owners.get(session).is_none_or(|owner| *owner == caller)
    }

    /// Records the owner of a new session. Once there are many, removes those that have ended.
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
