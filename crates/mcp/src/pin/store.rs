//! What a host keeps about mounted servers: what they last offered, and what a person accepted.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use haft_contract::host::Timestamp;
use serde_json::Value;

use super::{Digest, Item, LapseReason, Origin, Pins};
use crate::{definitions::Definitions, name::ServerId, protocol_era::ProtocolEra};

/// What a server last offered.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenDefinitions {
    /// When it was fetched.
    pub at: Timestamp,
    /// The protocol era that was negotiated.
    pub era: ProtocolEra,
    /// The definitions as received.
    pub definitions: Definitions,
}

/// The store could not be used. Treated as "nothing was accepted".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store of accepted definitions cannot be used: {0}")]
pub struct StoreError(pub String);

/// Stores what mounted servers offered and what a person accepted. Calls may block for as long as
/// it takes to read or write a small file.
pub trait Store: Send + Sync {
    /// What was accepted of a server. What was accepted for another origin under the same id does
    /// not count, but the pins say that it exists.
    fn pins(&self, server: &ServerId, origin: &Origin) -> Result<Pins, StoreError>;

    /// Changes what was accepted of a server, exclusively. Also stores the definitions that the
    /// pins refer to, so that a difference can be shown later.
    fn change(
        &self,
        server: &ServerId,
        origin: &Origin,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError>;

    /// What a server last offered.
    fn seen(
        &self,
        server: &ServerId,
        origin: &Origin,
    ) -> Result<Option<SeenDefinitions>, StoreError>;

    /// Stores what a server offers now.
    fn remember(
        &self,
        server: &ServerId,
        origin: &Origin,
        seen: &SeenDefinitions,
    ) -> Result<(), StoreError>;

    /// A definition that was accepted once.
    fn definition(&self, digest: Digest) -> Result<Option<Value>, StoreError>;

    /// A number that differs whenever what was accepted may have changed. Must be cheap: it is
    /// polled every second.
    fn revision(&self) -> u64;
}

/// A store in memory, for tests and for embedders without a disk.
#[derive(Debug, Default)]
pub struct MemoryStore {
    kept: Mutex<PinRecord>,
    revision: AtomicU64,
}

#[derive(Debug, Default)]
struct PinRecord {
    pins: HashMap<ServerId, Vec<(Origin, Pins)>>,
    seen: HashMap<(ServerId, Digest), SeenDefinitions>,
    definitions: HashMap<Digest, Value>,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, PinRecord> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn pins(&self, server: &ServerId, origin: &Origin) -> Result<Pins, StoreError> {
        let kept = self.kept();
        let all = kept.pins.get(server).map(Vec::as_slice).unwrap_or_default();
        let mine = all.iter().find(|(of, _)| of == origin);
        let mut pins = mine.map(|(_, pins)| pins.clone()).unwrap_or_default();
        if pins.is_new_server() {
            let others = all.iter().rfind(|(_, pins)| !pins.is_new_server());
            pins.lapsed = others.map(|(of, _)| LapseReason::Origin(of.clone()));
        }
        Ok(pins)
    }

    fn change(
        &self,
        server: &ServerId,
        origin: &Origin,
        kept: &[Item],
        change: &mut dyn FnMut(&mut Pins),
    ) -> Result<(), StoreError> {
        let mut all = self.kept();
        let pins = all.pins.entry(server.clone()).or_default();
        if let Some((_, pins)) = pins.iter_mut().find(|(of, _)| of == origin) {
            change(pins);
        } else {
            let mut new = Pins::default();
            change(&mut new);
            pins.push((origin.clone(), new));
        }
        let definitions = kept
            .iter()
            .map(|item| (item.digest, item.definition.clone()));
        all.definitions.extend(definitions);
        self.revision.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn seen(
        &self,
        server: &ServerId,
        origin: &Origin,
    ) -> Result<Option<SeenDefinitions>, StoreError> {
        let key = (server.clone(), origin.digest());
        Ok(self.kept().seen.get(&key).cloned())
    }

    fn remember(
        &self,
        server: &ServerId,
        origin: &Origin,
        seen: &SeenDefinitions,
    ) -> Result<(), StoreError> {
        let key = (server.clone(), origin.digest());
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pin::{ItemKey, Kind};

    #[test]
    fn what_was_accepted_of_one_origin_does_not_count_for_another() {
        let store = MemoryStore::default();
        let server = ServerId::parse("s").unwrap();
        let [one, other] = ["a", "b"].map(|program| Origin::new(json!({"command": [program]})));
        let definition = json!({"name": "send"});
        let item = Item {
            key: ItemKey::new(Kind::Tool, "send"),
            digest: Digest::of(&definition).unwrap(),
            definition,
        };
        let before = store.revision();
        let mut accept = |pins: &mut Pins| {
            pins.review([&item]);
            pins.accept(&item).unwrap();
        };
        let kept = std::slice::from_ref(&item);
        store.change(&server, &one, kept, &mut accept).unwrap();
        assert_ne!(store.revision(), before);
        let pins = store.pins(&server, &one).unwrap();
        assert!(!pins.is_new_server() && pins.lapsed.is_none());
        let pins = store.pins(&server, &other).unwrap();
        assert!(pins.is_new_server());
        assert_eq!(pins.lapsed, Some(LapseReason::Origin(one.clone())));
        let found = store.definition(item.digest).unwrap();
        assert_eq!(found, Some(item.definition.clone()));

        let mut revoke = |pins: &mut Pins| assert!(pins.revoke(&item.key));
        store.change(&server, &one, &[], &mut revoke).unwrap();
        assert!(store.pins(&server, &one).unwrap().is_new_server());
        assert_eq!(store.pins(&server, &other).unwrap().lapsed, None);
    }

    #[test]
    fn what_was_seen_is_kept_by_origin() {
        let store = MemoryStore::default();
        let server = ServerId::parse("s").unwrap();
        let [one, other] = ["a", "b"].map(|program| Origin::new(json!({"command": [program]})));
        let seen = SeenDefinitions {
            at: Timestamp(1),
            era: ProtocolEra::Modern,
            definitions: Definitions::default(),
        };
        store.remember(&server, &one, &seen).unwrap();
        assert_eq!(store.seen(&server, &one).unwrap(), Some(seen));
        assert_eq!(store.seen(&server, &other).unwrap(), None);
    }
}
