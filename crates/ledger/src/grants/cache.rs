//! People's grants in memory, kept up to date by reading what changed.
//!
//! Every change to a person's grants has a number (`changes.rs`). Whoever knows the grants up to one
//! reads only the rows that changed since. This process looks at once after a change of its own,
//! and every [`CHECK_EVERY`] for changes of other processes.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Principal, TenantId, UserId, WorkspaceId,
    host::{Grant, GrantFinder, GrantId, Timestamp},
};
use tokio::time::Instant;

use super::index::GrantIndex;

/// How long another process's change may go unnoticed.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// How many people's grants are cached. When there are more, the cache is cleared.
const MAX_USERS: usize = 1_024;

/// How many grants are cached. When there are more, the cache is cleared of everybody else's.
const MAX_CACHED: usize = 200_000;

/// Cached grants by the person they were made for.
#[derive(Default)]
pub(crate) struct GrantCache {
    users: Mutex<HashMap<(TenantId, UserId), Arc<UserGrants>>>,
}

/// One person's grants.
#[derive(Default)]
pub(super) struct UserGrants {
    /// Counts the changes this process made; what was read before one is out of date.
    own_changes: AtomicU64,
    state: Mutex<UserState>,
    /// Held while reading what changed, so that it is read once and in order.
    pub(super) reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct UserState {
    index: GrantIndex,
    known: KnownChanges,
    checked: Option<CheckMoment>,
    /// Grants that were not as cached when a call wanted to start with them.
    doubted: HashSet<GrantId>,
}

/// Up to which changes a person's grants are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KnownChanges {
    /// The last change.
    pub(super) changed: i64,
    /// The last change that took grants away.
    pub(super) removed: i64,
}

/// When something was read, relative to this process's changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckMoment {
    own_changes: u64,
    at: Instant,
}

impl GrantCache {
    /// A person's grants, perhaps not read yet.
    pub(super) fn of(&self, principal: &Principal) -> Arc<UserGrants> {
        let person = (principal.tenant.clone(), principal.user.clone());
        let mut users = self.users();
        if users.len() >= MAX_USERS && !users.contains_key(&person) {
            users.clear();
        }
        Arc::clone(users.entry(person).or_default())
    }

    /// This process changed grants of these people.
    pub(crate) fn changed(&self, people: &[(TenantId, UserId)]) {
        if people.is_empty() {
            return;
        }
        let users = self.users();
        for person in people {
            if let Some(user) = users.get(person) {
                user.own_changes.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// A call could not start with these grants, so they are read again, whatever is known of them.
    pub(crate) fn doubt(&self, principal: &Principal, grants: &[GrantId]) {
        if grants.is_empty() {
            return;
        }
        let user = self.of(principal);
        user.state().doubted.extend(grants);
        user.own_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes room after this person's grants were read.
    pub(super) fn make_room(&self, principal: &Principal) {
        let mut users = self.users();
        let cached: usize = users.values().map(|user| user.state().index.len()).sum();
        if cached > MAX_CACHED {
            users
                .retain(|(tenant, user), _| *tenant == principal.tenant && *user == principal.user);
        }
    }

    fn users(&self) -> MutexGuard<'_, HashMap<(TenantId, UserId), Arc<UserGrants>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserGrants {
    /// Whether nothing can have changed that should have been noticed.
    pub(super) fn is_fresh(&self) -> bool {
        let now = self.moment();
        self.state().checked.is_some_and(|checked| {
            checked.own_changes == now.own_changes && now.at - checked.at < CHECK_EVERY
        })
    }

    /// The current moment, to be taken before reading.
    pub(super) fn moment(&self) -> CheckMoment {
        CheckMoment {
            own_changes: self.own_changes.load(Ordering::Acquire),
            at: Instant::now(),
        }
    }

    pub(super) fn known(&self) -> KnownChanges {
        self.state().known
    }

    /// Which grants are to be read again whatever is known of them.
    pub(super) fn doubted(&self) -> Vec<GrantId> {
        self.state().doubted.iter().copied().collect()
    }

    /// Forgets everything, because what is stored is older than what was read.
    pub(super) fn forget(&self) {
        *self.state() = UserState::default();
    }

    /// Takes in a row that was read: the grant, or none if there is no valid one with this id.
    pub(super) fn put(&self, id: GrantId, grant: Option<Grant>, finder: &dyn GrantFinder) {
        let Some(grant) = grant else {
            self.state().index.remove(id);
            return;
        };
        let known = self.state().index.keys(id, &grant.rule).map(<[_]>::to_vec);
        // Outside the lock, because parsing a rule takes a while.
        let keys = known.unwrap_or_else(|| finder.rule_keys(&grant.rule));
        self.state().index.put(grant, keys);
    }

    /// Removes all but these.
    pub(super) fn retain(&self, ids: &HashSet<GrantId>) {
        self.state().index.retain(ids);
    }

    /// Everything up to these changes has been taken in, and these doubted grants.
    pub(super) fn checked(&self, moment: CheckMoment, known: KnownChanges, doubted: &[GrantId]) {
        let mut state = self.state();
        state.doubted.retain(|id| !doubted.contains(id));
        state.checked = Some(moment);
        state.known = known;
    }

    /// The grants that hold for a principal in a workspace now and can matter to a call.
    pub(super) fn find(
        &self,
        principal: &Principal,
        workspace: &WorkspaceId,
        now: Timestamp,
        finder: &dyn GrantFinder,
    ) -> Vec<Grant> {
        if self.state().index.len() == 0 {
            return Vec::new();
        }
        let keys = finder.call_keys();
        self.state().index.find(principal, workspace, now, &keys)
    }

    fn state(&self) -> MutexGuard<'_, UserState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
