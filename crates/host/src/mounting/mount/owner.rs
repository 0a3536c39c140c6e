//! For whom servers are mounted: whose logins are used, and where what belongs to them is kept.

use std::path::{Path, PathBuf};

use haft_contract::{TenantId, UserId};

use crate::config::trust::{hex, sha256};

/// The directories of owners that are not this machine's user, in the data directory.
const OWNER_DIRECTORIES: &str = "owners";

/// Whose login to a server is used. Two tenants, or two users, never share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOwner {
    /// The tenant.
    pub tenant: TenantId,
    /// The user.
    pub user: UserId,
}

impl LoginOwner {
    /// The data directory itself for a person on this machine; else one inside it.
    pub(super) fn directory(&self, data_dir: &Path) -> PathBuf {
        if self.tenant == TenantId::local() {
            return data_dir.to_owned();
        }
        // Hashed, because names of tenants and users need not be names of files.
        let name = sha256(format!("{}\n{}", self.tenant, self.user).as_bytes());
        data_dir.join(OWNER_DIRECTORIES).join(hex(name))
    }

    /// A user of this machine.
    pub fn local(user: UserId) -> Self {
        Self {
            tenant: TenantId::local(),
            user,
        }
    }
}
