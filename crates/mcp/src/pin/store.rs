//! What a host keeps about mounted servers: what they offered last, and what a person accepted.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_contract::host::Timestamp;
use serde_json::Value;

use super::{Digest, Item, Pins};
use crate::{
    name::ServerId,
    upstream::connection::{Definitions, Era},
};

/// What a server offered last.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// When it was fetched.
    pub at: Timestamp,
    /// The era that was agreed on.
    pub era: Era,
    /// As it came.
    pub definitions: Definitions,
}

/// The store could not be used. What it should have said is taken as "nothing was accepted".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what was accepted of mounted servers cannot be used: {0}")]
pub struct StoreError(pub String);

/// Keeps what mounted servers offered and what a person accepted. Calls may block for as long as a
/// small file takes.
pub trait Store: Send + Sync {
    /// What was accepted of a server.
    fn pins(&self, server: &ServerId) -> Result<Pins, StoreError>;

    /// Changes what was accepted of a server; nobody else does meanwhile. The definitions that the
    /// pins speak of are kept too, so that a difference can be shown later.
    fn change(
        &self,
        server: &ServerId,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError>;

    /// What a server offered last. `origin` tells servers apart that were given one id in two
    /// places: a hash of what is started or reached.
    fn seen(&self, server: &ServerId, origin: Digest) -> Result<Option<Seen>, StoreError>;

    /// Keeps what a server offers now.
    fn remember(&self, server: &ServerId, origin: Digest, seen: &Seen) -> Result<(), StoreError>;

    /// A definition that was accepted once.
    fn definition(&self, digest: Digest) -> Result<Option<Value>, StoreError>;

    /// Another number whenever what was accepted may have changed. Cheap: asked every second.
    fn revision(&self) -> u64;
}

/// A store that forgets, for tests and for embedders without a disk.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
    revision: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    pins: HashMap<ServerId, Pins>,
    seen: HashMap<(ServerId, Digest), Seen>,
    definitions: HashMap<Digest, Value>,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn pins(&self, server: &ServerId) -> Result<Pins, StoreError> {
        Ok(self.kept().pins.get(server).cloned().unwrap_or_default())
    }

    fn change(
        &self,
        server: &ServerId,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError> {
        let mut all = self.kept();
        change(all.pins.entry(server.clone()).or_default());
        let definitions = kept
            .iter()
            .map(|item| (item.digest, item.definition.clone()));
        all.definitions.extend(definitions);
        self.revision.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn seen(&self, server: &ServerId, origin: Digest) -> Result<Option<Seen>, StoreError> {
        Ok(self.kept().seen.get(&(server.clone(), origin)).cloned())
    }

    fn remember(&self, server: &ServerId, origin: Digest, seen: &Seen) -> Result<(), StoreError> {
        let key = (server.clone(), origin);
        self.kept().seen.insert(key, seen.clone());
        Ok(())
    }

    fn definition(&self, digest: Digest) -> Result<Option<Value>, StoreError> {
        Ok(self.kept().definitions.get(&digest).cloned())
    }

    fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }
}
