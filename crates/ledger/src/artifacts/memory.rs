//! Artifacts of a record in memory, by content hash. Bounded: the oldest are removed for new ones, as
//! retention would do.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    BoxFuture,
    host::{ArtifactId, ArtifactStore, LedgerError, ReadArtifact, Timestamp, WriteArtifact},
};

use super::{
    ExpiringArtifacts, ExpiryReport, MAX_ARTIFACT_BYTES, MAX_READ_BYTES, not_found, sweep,
    too_large,
};
use crate::options::Retention;

/// The most bytes that are kept. The largest artifact fits.
const MAX_KEPT_BYTES: u64 = MAX_ARTIFACT_BYTES;

/// The artifacts of one record in memory. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryArtifacts(Arc<Mutex<ArtifactTable>>);

#[derive(Default)]
struct ArtifactTable {
    by_id: HashMap<ArtifactId, MemoryArtifact>,
    bytes: u64,
    /// Counts what is kept, to know what is the oldest.
    kept: u64,
}

struct MemoryArtifact {
    bytes: Arc<[u8]>,
    number: u64,
    /// When it was first looked at by retention; nothing before that.
    seen: Option<Timestamp>,
}

impl MemoryArtifacts {
    pub(crate) fn count(&self) -> usize {
        self.table().by_id.len()
    }

    fn table(&self) -> MutexGuard<'_, ArtifactTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ArtifactTable {
    fn keep(&mut self, id: ArtifactId, bytes: Vec<u8>) {
        self.kept += 1;
        let number = self.kept;
        if let Some(known) = self.by_id.get_mut(&id) {
            (known.number, known.seen) = (number, None);
            return;
        }
        self.shrink_to(MAX_KEPT_BYTES.saturating_sub(id.bytes));
        self.bytes += id.bytes;
        let artifact = MemoryArtifact {
            bytes: bytes.into(),
            number,
            seen: None,
        };
        self.by_id.insert(id, artifact);
    }

    /// Removes the oldest until at most this many bytes are kept.
    fn shrink_to(&mut self, most: u64) -> ExpiryReport {
        let mut report = ExpiryReport::default();
        while self.bytes > most {
            let oldest = self.by_id.iter().min_by_key(|(_, kept)| kept.number);
            let Some(id) = oldest.map(|(id, _)| *id) else {
                break;
            };
            self.remove(id, &mut report);
        }
        report
    }

    fn remove(&mut self, id: ArtifactId, report: &mut ExpiryReport) {
        if self.by_id.remove(&id).is_some() {
            self.bytes = self.bytes.saturating_sub(id.bytes);
            report.removed += 1;
            report.bytes += id.bytes;
        }
    }
}

impl ArtifactStore for MemoryArtifacts {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        let writing = WritingArtifact {
            store: self.clone(),
            bytes: Vec::new(),
        };
        Box::pin(async move { Ok(Box::new(writing) as Box<dyn WriteArtifact>) })
    }

    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        Box::pin(async move {
            let bytes = self
                .table()
                .by_id
                .get(&id)
                .map(|kept| Arc::clone(&kept.bytes));
            let bytes = bytes.ok_or_else(|| not_found(id))?;
            Ok(Arc::new(OpenArtifact { id, bytes }) as Arc<dyn ReadArtifact>)
        })
    }
}

impl ExpiringArtifacts for MemoryArtifacts {
    fn kept_bytes(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(async move { Ok(self.table().bytes) })
    }

    fn expire(
        &self,
        now: Timestamp,
        retention: Retention,
    ) -> BoxFuture<'_, Result<ExpiryReport, LedgerError>> {
        Box::pin(async move {
            let mut table = self.table();
            let oldest = sweep::before(now, retention.kept_for);
            let mut old = Vec::new();
            for (id, kept) in &mut table.by_id {
                if kept.seen.get_or_insert(now).0 < oldest {
                    old.push(*id);
                }
            }
            let mut report = ExpiryReport::default();
            for id in old {
                table.remove(id, &mut report);
            }
            let shrunk = table.shrink_to(retention.max_total_bytes);
            report.removed += shrunk.removed;
            report.bytes += shrunk.bytes;
            report.kept_bytes = table.bytes;
            Ok(report)
        })
    }

    fn take_sweep(&self, _: Timestamp) -> BoxFuture<'_, Result<bool, LedgerError>> {
        // Looking costs nothing here.
        Box::pin(async { Ok(true) })
    }
}

struct WritingArtifact {
    store: MemoryArtifacts,
    bytes: Vec<u8>,
}

impl WriteArtifact for WritingArtifact {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let length = self.bytes.len().saturating_add(bytes.len());
            if u64::try_from(length).is_ok_and(|length| length <= MAX_ARTIFACT_BYTES) {
                self.bytes.extend_from_slice(bytes);
                Ok(())
            } else {
                Err(too_large())
            }
        })
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>> {
        Box::pin(async move {
            let Self { store, bytes } = *self;
            let id = ArtifactId {
                hash: *blake3::hash(&bytes).as_bytes(),
                bytes: u64::try_from(bytes.len()).map_err(|_| too_large())?,
            };
            store.table().keep(id, bytes);
            Ok(id)
        })
    }
}

struct OpenArtifact {
    id: ArtifactId,
    bytes: Arc<[u8]>,
}

impl ReadArtifact for OpenArtifact {
    fn id(&self) -> ArtifactId {
        self.id
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Vec<u8>, LedgerError>> {
        Box::pin(async move {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let rest = self.bytes.get(start..).unwrap_or_default();
            let end = len.min(MAX_READ_BYTES).min(rest.len());
            Ok(rest.get(..end).unwrap_or_default().to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn keep(artifacts: &MemoryArtifacts, bytes: &[u8]) -> ArtifactId {
        let mut writing = artifacts.create().await.unwrap();
        writing.write(bytes).await.unwrap();
        writing.finish().await.unwrap()
    }

    #[tokio::test]
    async fn the_oldest_make_room_and_retention_counts_from_the_first_look() {
        let artifacts = MemoryArtifacts::default();
        let (old, new) = (
            keep(&artifacts, b"old").await,
            keep(&artifacts, b"newer").await,
        );
        let mut retention = Retention {
            kept_for: Duration::from_secs(10),
            max_total_bytes: 6,
        };
        let report = artifacts.expire(Timestamp(0), retention).await.unwrap();
        assert_eq!((report.removed, report.bytes, report.kept_bytes), (1, 3, 5));
        assert!(artifacts.open(old).await.is_err());
        assert!(artifacts.open(new).await.is_ok());
        retention.max_total_bytes = 100;
        let later = Timestamp(10_000_001);
        let report = artifacts.expire(later, retention).await.unwrap();
        assert_eq!((report.removed, report.kept_bytes), (1, 0));
    }
}
