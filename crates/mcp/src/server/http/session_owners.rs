//! Who owns each session. A session id travels in a header, and others than its client may see it;
//! it is useless with another credential, and in another workspace than it was begun in.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_contract::{TenantId, WorkspaceId};

use crate::server::approve::CallOwner;

/// Whose a session is, and the workspace that its calls run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionOwner {
    pub(super) tenant: TenantId,
    pub(super) workspace: WorkspaceId,
    pub(super) owner: CallOwner,
}

/// How many sessions may be open.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionCaps {
    pub(super) in_all: usize,
    pub(super) of_tenant: usize,
}

/// The owner of every open session.
pub(super) struct SessionOwners {
    table: Mutex<OwnerTable>,
    caps: SessionCaps,
}

#[derive(Default)]
struct OwnerTable {
    owners: HashMap<String, SessionOwner>,
    /// Whose sessions are being begun, so that requests at once get no more than one after another.
    beginning: Vec<TenantId>,
}

/// Room for a session that is being begun, given up when dropped.
pub(super) struct SessionRoom<'a> {
    owners: &'a SessionOwners,
    tenant: TenantId,
}

/// Why a tenant cannot have another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionsFull {
    /// So many are open.
    InAll(usize),
    /// The tenant has so many.
    OfTenant(usize),
}

impl std::fmt::Display for SessionsFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InAll(most) => write!(f, "{most} sessions are open")?,
            Self::OfTenant(most) => write!(
                f,
                "{most} sessions of your tenant are open, the most it may have"
            )?,
        }
        f.write_str("; end one with DELETE, or try again later")
    }
}

impl SessionOwners {
    pub(super) fn new(caps: SessionCaps) -> Self {
        Self {
            table: Mutex::default(),
            caps,
        }
    }

    /// Whether a caller may use a session. An unknown session is left to the protocol, which does
    /// not know it either.
    pub(super) fn may_use(&self, session: &str, caller: &SessionOwner) -> bool {
        let table = self.lock();
        let owner = table.owners.get(session);
        owner.is_none_or(|owner| owner == caller)
    }

    /// Room for another session of a tenant, where `open` are open.
    pub(super) fn room_for(
        &self,
        tenant: &TenantId,
        open: usize,
        is_open: impl Fn(&str) -> bool,
    ) -> Result<SessionRoom<'_>, SessionsFull> {
        let SessionCaps { in_all, of_tenant } = self.caps;
        let mut table = self.lock();
        if open + table.beginning.len() >= in_all {
            return Err(SessionsFull::InAll(in_all));
        }
        // Counted only where it can matter.
        if of_tenant < in_all {
            let has = table.owners.iter();
            let has = has.filter(|(session, owner)| owner.tenant == *tenant && is_open(session));
            let begins = table.beginning.iter().filter(|begins| *begins == tenant);
            if has.count() + begins.count() >= of_tenant {
                return Err(SessionsFull::OfTenant(of_tenant));
            }
        }
        table.beginning.push(tenant.clone());
        drop(table);
        Ok(SessionRoom {
            owners: self,
            tenant: tenant.clone(),
        })
    }

    /// Records the owner of a new session. Once there are many, removes those that have ended.
    pub(super) fn begin(&self, session: &str, owner: SessionOwner, is_open: impl Fn(&str) -> bool) {
        let mut table = self.lock();
        if table.owners.len() >= self.caps.in_all {
            table.owners.retain(|session, _| is_open(session));
        }
        table.owners.insert(session.to_owned(), owner);
    }

    fn lock(&self) -> MutexGuard<'_, OwnerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionRoom<'_> {
    fn drop(&mut self) {
        let mut table = self.owners.lock();
        let begins = table.beginning.iter().position(|it| *it == self.tenant);
        if let Some(begins) = begins {
            table.beginning.swap_remove(begins);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_begun_at_once_are_no_more_than_one_after_another() {
        let caps = SessionCaps {
            in_all: 3,
            of_tenant: 2,
        };
        let owners = SessionOwners::new(caps);
        let tenant = |name: &str| TenantId::parse(name).unwrap();
        let room = |name, open| owners.room_for(&tenant(name), open, |_| true);
        let one = room("acme", 0).unwrap();
        let _two = room("acme", 0).unwrap();
        assert_eq!(room("acme", 0).err(), Some(SessionsFull::OfTenant(2)));
        let _of_beta = room("beta", 0).unwrap();
        assert_eq!(room("beta", 0).err(), Some(SessionsFull::InAll(3)));
        drop(one);
        assert!(room("acme", 0).is_ok());
        assert_eq!(room("beta", 1).err(), Some(SessionsFull::InAll(3)));
    }
}
