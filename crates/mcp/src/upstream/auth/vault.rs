//! Where tokens are kept between runs. The host provides the storage: this crate opens no files.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{TenantId, UserId, future::BoxFuture};
use sha2::{Digest as _, Sha256};
use url::Url;

/// The largest record of one login, in bytes.
pub const MAX_RECORD_BYTES: usize = 64 * 1024;

/// Identifies one user's login to one server. The record under it names the one issuer it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    name: String,
}

impl Key {
    /// The key for the login of a tenant's user to a server.
    pub fn new(server: &Url, tenant: &TenantId, user: &UserId) -> Self {
        let mut hash = Sha256::new();
        for part in [tenant.as_str(), user.as_str(), server.as_str()] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let mut name = String::with_capacity(64);
        for byte in hash.finalize() {
            // Writing to a `String` cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        Self { name }
    }

    /// The key as hexadecimal digits, safe as a file name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

/// The token store is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the token store cannot be used: {0}")]
pub struct VaultError(pub String);

/// Held while refreshing a token; dropping it lets the next one in.
pub type RefreshTurn = Box<dyn Send>;

/// Stores login records, readable by their owner alone.
pub trait Vault: Send + Sync {
    /// The stored record.
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Vec<u8>>, VaultError>>;

    /// Replaces the record atomically.
    fn save<'a>(&'a self, key: &'a Key, record: Vec<u8>) -> BoxFuture<'a, Result<(), VaultError>>;

    /// Deletes a record; returns whether there was one.
    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, VaultError>>;

    /// Waits, within its own time limit, until nobody else refreshes this login, in this process or
    /// in another that uses the same store.
    fn turn<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<RefreshTurn, VaultError>>;
}

/// Keeps records for the life of the process.
#[derive(Debug, Default)]
pub struct MemoryVault {
    records: Mutex<HashMap<Key, Vec<u8>>>,
    turns: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<()>>>>,
}

impl Vault for MemoryVault {
    fn load<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Vec<u8>>, VaultError>> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let found = records.get(key).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn save<'a>(&'a self, key: &'a Key, record: Vec<u8>) -> BoxFuture<'a, Result<(), VaultError>> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(key.clone(), record);
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, VaultError>> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let there = records.remove(key).is_some();
        Box::pin(async move { Ok(there) })
    }

    fn turn<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<RefreshTurn, VaultError>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = Arc::clone(turns.entry(key.clone()).or_default());
        Box::pin(async move { Ok(Box::new(turn.lock_owned().await) as RefreshTurn) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_of_one_user_of_one_tenant_to_one_server() {
        let key = |server: &str, tenant: &str, user: &str| {
            let server = Url::parse(server).unwrap();
            let (tenant, user) = (TenantId::parse(tenant), UserId::parse(user));
            Key::new(&server, &tenant.unwrap(), &user.unwrap())
        };
        let own = key("https://mail.example/mcp", "acme", "ada");
        assert_eq!(own, key("https://mail.example/mcp", "acme", "ada"));
        for other in [
            key("https://mail.example/mcp", "beta", "ada"),
            key("https://mail.example/mcp", "acme", "bob"),
            key("https://mail.example/other", "acme", "ada"),
            key("https://mail.example/mcp", "acm", "eada"),
        ] {
            assert_ne!(own, other);
        }
    }
}
