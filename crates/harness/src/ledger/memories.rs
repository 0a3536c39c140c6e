//! In-memory memories, following `MemoryStore`.

use haft_contract::{
    BoxFuture, Labels, Principal, TenantId,
    host::{LedgerError, LedgerErrorKind, MemoryStore},
    memory::{MAX_MEMORIES, Memory, MemoryId, MemoryOwner},
};

use super::{MemoryLedger, session_key};

impl MemoryStore for MemoryLedger {
    fn save(&self, memory: Memory) -> BoxFuture<'_, Result<Memory, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let memories = &mut self.lock().memories;
            let owned = memories.iter().filter(|kept| kept.owner == memory.owner);
            if owned.count() >= MAX_MEMORIES {
                return Err(LedgerError::new(
                    LedgerErrorKind::LimitExceeded,
                    format!("there are {MAX_MEMORIES} memories"),
                ));
            }
            memories.push(memory.clone());
            Ok(memory)
        })
    }

    fn of<'a>(&'a self, owner: &'a MemoryOwner) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut memories = self.lock().memories.clone();
            memories.retain(|memory| memory.owner == *owner);
            memories.sort_by_key(|memory| (memory.saved, memory.id));
            Ok(memories)
        })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Memory>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let mut memories = self.lock().memories.clone();
            memories.retain(|memory| memory.owner.tenant == *tenant);
            memories.sort_by_key(|memory| (memory.saved, memory.id));
            memories.truncate(limit);
            Ok(memories)
        })
    }

    fn forget<'a>(
        &'a self,
        owner: &'a MemoryOwner,
        id: MemoryId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let memories = &mut self.lock().memories;
            let before = memories.len();
            memories.retain(|memory| memory.id != id || memory.owner != *owner);
            Ok(memories.len() < before)
        })
    }

    fn note_read<'a>(
        &'a self,
        principal: &'a Principal,
        read_from: &'a Labels,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let key = session_key(&principal.tenant, &principal.session);
            let mut state = self.lock();
            let used = state.memory_sources.entry(key).or_default();
            used.extend(
                read_from
                    .iter()
                    .map(haft_contract::Label::recorded_provider),
            );
            Ok(())
        })
    }
}
