//! In-memory artifacts, by content hash.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    BoxFuture,
    host::{ArtifactId, ArtifactStore, LedgerError, LedgerErrorKind, ReadArtifact, WriteArtifact},
};

/// The largest artifact kept.
pub(super) const MAX_ARTIFACT_BYTES: usize = 256 << 20;

/// Stores artifacts in memory. Clones share them.
#[derive(Clone, Default)]
pub struct MemoryArtifacts(Arc<Mutex<BTreeMap<ArtifactId, Arc<Vec<u8>>>>>);

impl MemoryArtifacts {
    /// How many artifacts are kept.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ArtifactId, Arc<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ArtifactStore for MemoryArtifacts {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        Box::pin(async move {
            Ok(Box::new(MemoryArtifact {
                store: self.clone(),
                bytes: Vec::new(),
            }) as Box<dyn WriteArtifact>)
        })
    }

    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        Box::pin(async move {
            let bytes = self.lock().get(&id).cloned();
            let bytes = bytes.ok_or_else(|| {
                LedgerError::new(
                    LedgerErrorKind::NotFound,
                    format!("there is no artifact `{id}`"),
                )
            })?;
            Ok(Arc::new(KeptArtifact { id, bytes }) as Arc<dyn ReadArtifact>)
        })
    }
}

struct MemoryArtifact {
    store: MemoryArtifacts,
    bytes: Vec<u8>,
}

impl WriteArtifact for MemoryArtifact {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            if self.bytes.len() + bytes.len() > MAX_ARTIFACT_BYTES {
                return Err(LedgerError::new(
                    LedgerErrorKind::LimitExceeded,
                    format!("an artifact may hold at most {MAX_ARTIFACT_BYTES} bytes"),
                ));
            }
            self.bytes.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>> {
        Box::pin(async move {
            let id = ArtifactId {
                hash: *blake3::hash(&self.bytes).as_bytes(),
                bytes: self.bytes.len() as u64,
            };
            self.store.lock().insert(id, Arc::new(self.bytes));
            Ok(id)
        })
    }
}

struct KeptArtifact {
    id: ArtifactId,
    bytes: Arc<Vec<u8>>,
}

impl ReadArtifact for KeptArtifact {
    fn id(&self) -> ArtifactId {
        self.id
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Vec<u8>, LedgerError>> {
        Box::pin(async move {
            let start = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(self.bytes.len());
            let end = start.saturating_add(len).min(self.bytes.len());
            Ok(self.bytes[start..end].to_vec())
        })
    }
}
