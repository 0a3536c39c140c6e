//! What was read of people's grants a moment ago.

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

/// Whose grants are remembered at once. When there are more, all are forgotten.
const MAX_USERS: usize = 1_024;

/// Grants by the person they were made for.
#[derive(Default)]
pub(crate) struct GrantCache {
    /// Counts the changes this process knows of; what was read before one is not used after it.
    changes: AtomicU64,
    users: Mutex<HashMap<(TenantId, UserId), Read>>,
}

struct Read {
    change: u64,
    at: Instant,
    grants: Arc<Vec<Grant>>,
}

/// When something was read: before or after which change.
pub(super) struct ReadMoment {
    change: u64,
    at: Instant,
}

impl GrantCache {
    /// Something changed; nothing read before counts.
    pub(crate) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// This moment, to be taken before reading.
    pub(super) fn moment(&self) -> ReadMoment {
        ReadMoment {
            change: self.changes.load(Ordering::Acquire),
            at: Instant::now(),
        }
    }

    /// What was read of a person's grants, if that is recent.
    pub(super) fn of(&self, principal: &Principal) -> Option<Arc<Vec<Grant>>> {
        let now = self.moment();
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let read = users.get(&(principal.tenant.clone(), principal.user.clone()))?;
        let recent = read.change == now.change && now.at - read.at < REMEMBERED_FOR;
        recent.then(|| Arc::clone(&read.grants))
    }

    /// Remembers what was read at a moment.
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
