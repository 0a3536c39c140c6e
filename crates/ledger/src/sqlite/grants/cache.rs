//! Caches recently read grants.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{Principal, TenantId, UserId, host::Grant};
use tokio::time::Instant;

/// How long another process's new grant may go unnoticed.
const REMEMBERED_FOR: Duration = Duration::from_millis(250);

/// How many people's grants are cached. When there are more, the cache is cleared.
const MAX_USERS: usize = 1_024;

/// Cached grants by the person they were made for.
#[derive(Default)]
pub(crate) struct GrantCache {
    /// Counts the changes this process knows about; what was read before one is not used after it.
    changes: AtomicU64,
    users: Mutex<HashMap<(TenantId, UserId), Read>>,
}

struct Read {
    change: u64,
    at: Instant,
    grants: Arc<Vec<Grant>>,
}

/// When something was read, relative to changes.
pub(super) struct ReadMoment {
    change: u64,
    at: Instant,
}

impl GrantCache {
    /// Invalidates everything read before.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The current moment, to be taken before reading.
    pub(super) fn moment(&self) -> ReadMoment {
        ReadMoment {
            change: self.changes.load(Ordering::Acquire),
            at: Instant::now(),
        }
    }

    /// A person's cached grants, if recent.
    pub(super) fn of(&self, principal: &Principal) -> Option<Arc<Vec<Grant>>> {
        let now = self.moment();
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let read = users.get(&(principal.tenant.clone(), principal.user.clone()))?;
        let recent = read.change == now.change && now.at - read.at < REMEMBERED_FOR;
        recent.then(|| Arc::clone(&read.grants))
    }

    /// Caches what was read at a moment.
    pub(super) fn remember(
        &self,
        principal: &Principal,
        moment: ReadMoment,
        grants: Vec<Grant>,
    ) -> Arc<Vec<Grant>> {
        let grants = Arc::new(grants);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= MAX_USERS {
            users.clear();
        }
        let read = Read {
            change: moment.change,
            at: moment.at,
            grants: Arc::clone(&grants),
        };
        users.insert((principal.tenant.clone(), principal.user.clone()), read);
        grants
    }
}
