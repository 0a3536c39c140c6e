//! Where memories are kept: beside the record, in the same store.

use super::LedgerError;
use crate::{
    future::BoxFuture,
    identity::{Principal, TenantId},
    label::Labels,
    memory::{Memory, MemoryId, MemoryOwner},
};

/// Keeps memories.
pub trait MemoryStore: Send + Sync {
    /// Keeps a memory, durably; returns it as it is kept, with secrets taken out. Fails with
    /// [`super::LedgerErrorKind::LimitExceeded`] when its owner has
    /// [`MAX_MEMORIES`](crate::memory::MAX_MEMORIES).
    fn save(&self, memory: Memory) -> BoxFuture<'_, Result<Memory, LedgerError>>;

    /// All memories of an owner, oldest first.
    fn of<'a>(&'a self, owner: &'a MemoryOwner) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>>;

    /// The memories of a tenant, oldest first, for its people.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>>;

    /// Removes a memory, durably; returns whether its owner had it.
    fn forget<'a>(
        &'a self,
        owner: &'a MemoryOwner,
        id: MemoryId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>>;

    /// Notes durably that a session has read from these sources by way of a memory. Returns before
    /// the text may reach the agent, and after every process can know it
    /// ([`Ledger::used_mark`](super::Ledger::used_mark)).
    fn note_read<'a>(
        &'a self,
        principal: &'a Principal,
        read_from: &'a Labels,
    ) -> BoxFuture<'a, Result<(), LedgerError>>;
}
