//! Which artifacts were compared with their hash, and what they were then.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_contract::host::ArtifactId;

/// Artifacts remembered as verified. When the cache is full, it starts over.
const MAX_CHECKED: usize = 4_096;

/// Artifacts whose content was verified, each with what identifies that version of it.
#[derive(Debug)]
pub(super) struct CheckedArtifacts<V>(Mutex<HashMap<ArtifactId, V>>);

impl<V> Default for CheckedArtifacts<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> CheckedArtifacts<V> {
    /// The version that was verified.
    pub(super) fn version(&self, id: ArtifactId) -> Option<V> {
        self.lock().get(&id).cloned()
    }

    /// Remembers a version that was just verified.
    pub(super) fn remember(&self, id: ArtifactId, version: V) {
        let mut checked = self.lock();
        if checked.len() >= MAX_CHECKED {
            checked.clear();
        }
        checked.insert(id, version);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ArtifactId, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
