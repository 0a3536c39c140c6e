//! Artifacts of a record in memory, by content hash. Bounded: the oldest are removed for new ones, as
//! retention would do, and first those of the tenant that has the most. So a tenant loses something to
//! others only while it has more than any of them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft_contract::{
    BoxFuture, TenantId,
    host::{
        ArtifactId, ArtifactStore, LedgerError, LedgerErrorKind, ReadArtifact, Timestamp,
        WriteArtifact,
    },
};

use super::{
    ExpiringArtifacts, ExpiryReport, MAX_ARTIFACT_BYTES, MAX_READ_BYTES, not_found, sweep,
    too_large,
};
use crate::options::Retention;

/// The most bytes that are kept and being written, of all tenants together: 1 GiB, so that one artifact
/// does not take the place of all others.
const MAX_KEPT_BYTES: u64 = 4 * MAX_ARTIFACT_BYTES;

/// Who an artifact counts for; nobody in particular if no tenant was named.
type ArtifactOwner = Option<TenantId>;

/// The artifacts of one record in memory, as one tenant keeps them. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct MemoryArtifacts {
    table: Arc<Mutex<ArtifactTable>>,
    owner: ArtifactOwner,
}

struct ArtifactTable {
    /// The most bytes.
    room: u64,
    by_id: HashMap<ArtifactId, MemoryArtifact>,
    by_owner: HashMap<ArtifactOwner, OwnedArtifacts>,
    /// Kept and being written; what several own counts once.
    bytes: u64,
    /// Counts what is kept, to know what is the oldest.
    kept: u64,
}

struct MemoryArtifact {
    bytes: Arc<[u8]>,
    /// Who kept it, with the number of the last time.
    owners: HashMap<ArtifactOwner, u64>,
    /// When it was first looked at by retention; nothing before that.
    seen: Option<Timestamp>,
}

/// What one owner has.
#[derive(Default)]
struct OwnedArtifacts {
    /// Kept and being written, in full, whoever else owns it.
    bytes: u64,
    by_age: BTreeMap<u64, ArtifactId>,
}

impl Default for ArtifactTable {
    fn default() -> Self {
        Self {
            room: MAX_KEPT_BYTES,
            by_id: HashMap::new(),
            by_owner: HashMap::new(),
            bytes: 0,
            kept: 0,
        }
    }
}

impl MemoryArtifacts {
    pub(crate) fn count(&self) -> usize {
        self.table().by_id.len()
    }

    fn table(&self) -> MutexGuard<'_, ArtifactTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ArtifactTable {
    /// Keeps what was being written.
    fn keep(&mut self, id: ArtifactId, bytes: Vec<u8>, owner: &ArtifactOwner) {
        self.release(id.bytes, owner);
        if !self.by_id.contains_key(&id) {
            self.bytes += id.bytes;
            let artifact = MemoryArtifact {
                bytes: bytes.into(),
                owners: HashMap::new(),
                seen: None,
            };
            self.by_id.insert(id, artifact);
        }
        self.renew(id, owner);
    }

    /// Counts an artifact for an owner, as its newest. Returns whether it is kept.
    fn renew(&mut self, id: ArtifactId, owner: &ArtifactOwner) -> bool {
        let Some(artifact) = self.by_id.get_mut(&id) else {
            return false;
        };
        artifact.seen = None;
        self.kept += 1;
        let before = artifact.owners.insert(owner.clone(), self.kept);
        let held = self.by_owner.entry(owner.clone()).or_default();
        match before {
            Some(number) => {
                held.by_age.remove(&number);
            }
            None => held.bytes += id.bytes,
        }
        held.by_age.insert(self.kept, id);
        true
    }

    /// Makes room for more of what an owner is writing. Returns whether there is some.
    fn reserve(&mut self, bytes: u64, owner: &ArtifactOwner) -> bool {
        let mut report = ExpiryReport::default();
        while self.bytes.saturating_add(bytes) > self.room {
            let own = self.by_owner.get(owner).map_or(0, |owned| owned.bytes) + bytes;
            let heaviest = self.heaviest().filter(|(_, most)| *most > own);
            let from = heaviest.map_or_else(|| owner.clone(), |(from, _)| from);
            if !self.remove_oldest(&from, &mut report) {
                return false;
            }
        }
        self.bytes += bytes;
        self.by_owner.entry(owner.clone()).or_default().bytes += bytes;
        true
    }

    /// Takes back what was reserved.
    fn release(&mut self, bytes: u64, owner: &ArtifactOwner) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.disown(owner, bytes, None);
    }

    /// Who has the most, of those that keep anything, and how much.
    fn heaviest(&self) -> Option<(ArtifactOwner, u64)> {
        let keeping = self.by_owner.iter().filter(|(_, of)| !of.by_age.is_empty());
        let heaviest = keeping.max_by_key(|(_, owned)| owned.bytes);
        heaviest.map(|(owner, owned)| (owner.clone(), owned.bytes))
    }

    /// Removes artifacts until at most this many bytes are left.
    fn shrink_to(&mut self, most: u64) -> ExpiryReport {
        let mut report = ExpiryReport::default();
        while self.bytes > most {
            let Some((owner, _)) = self.heaviest() else {
                break;
            };
            if !self.remove_oldest(&owner, &mut report) {
                break;
            }
        }
        report
    }

    /// Removes the oldest artifact of an owner, unless somebody else keeps it, too. Returns whether the
    /// owner had one.
    fn remove_oldest(&mut self, owner: &ArtifactOwner, report: &mut ExpiryReport) -> bool {
        let held = self.by_owner.get(owner);
        let oldest = held.and_then(|held| held.by_age.first_key_value());
        let Some((number, id)) = oldest.map(|(number, id)| (*number, *id)) else {
            return false;
        };
        self.disown(owner, id.bytes, Some(number));
        if let Some(artifact) = self.by_id.get_mut(&id) {
            artifact.owners.remove(owner);
            if artifact.owners.is_empty() {
                self.remove(id, report);
            }
        }
        true
    }

    fn remove(&mut self, id: ArtifactId, report: &mut ExpiryReport) {
        if let Some(artifact) = self.by_id.remove(&id) {
            for (owner, number) in artifact.owners {
                self.disown(&owner, id.bytes, Some(number));
            }
            self.bytes = self.bytes.saturating_sub(id.bytes);
            report.removed += 1;
            report.bytes += id.bytes;
        }
    }

    /// Counts less for an owner, and forgets one that has nothing.
    fn disown(&mut self, owner: &ArtifactOwner, bytes: u64, number: Option<u64>) {
        if let Some(owned) = self.by_owner.get_mut(owner) {
            owned.bytes = owned.bytes.saturating_sub(bytes);
            if let Some(number) = number {
                owned.by_age.remove(&number);
            }
            if owned.bytes == 0 && owned.by_age.is_empty() {
                self.by_owner.remove(owner);
            }
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

    fn renew(&self, ids: Vec<ArtifactId>) -> BoxFuture<'_, Result<Vec<bool>, LedgerError>> {
        Box::pin(async move {
            let mut table = self.table();
            let kept = ids.into_iter().map(|id| table.renew(id, &self.owner));
            Ok(kept.collect())
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

    fn of_tenant(&self, tenant: &TenantId) -> Option<Arc<dyn ArtifactStore>> {
        Some(Arc::new(Self {
            table: Arc::clone(&self.table),
            owner: Some(tenant.clone()),
        }))
    }

    fn take_sweep(&self, _: Timestamp) -> BoxFuture<'_, Result<bool, LedgerError>> {
        // Looking costs nothing here.
        Box::pin(async { Ok(true) })
    }
}

struct WritingArtifact {
    store: MemoryArtifacts,
    /// Reserved in the table.
    bytes: Vec<u8>,
}

impl WritingArtifact {
    fn length(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }
}

impl WriteArtifact for WritingArtifact {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            if self.length().saturating_add(more) > MAX_ARTIFACT_BYTES {
                return Err(too_large());
            }
            if !self.store.table().reserve(more, &self.store.owner) {
                return Err(full());
            }
            self.bytes.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>> {
        Box::pin(async move {
            let id = ArtifactId {
                hash: *blake3::hash(&self.bytes).as_bytes(),
                bytes: self.length(),
            };
            let bytes = std::mem::take(&mut self.bytes);
            let store = self.store.clone();
            store.table().keep(id, bytes, &store.owner);
            Ok(id)
        })
    }
}

impl Drop for WritingArtifact {
    fn drop(&mut self) {
        let length = self.length();
        self.store.table().release(length, &self.store.owner);
    }
}

/// What a tenant is writing, with what tenants have that have no more, takes all the room.
fn full() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::LimitExceeded,
        format!("the artifacts of a record in memory hold at most {MAX_KEPT_BYTES} bytes together"),
    )
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
        keep_in(artifacts, bytes).await
    }

    async fn keep_in(artifacts: &dyn ArtifactStore, bytes: &[u8]) -> ArtifactId {
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

    fn of(artifacts: &MemoryArtifacts, tenant: &str) -> Arc<dyn ArtifactStore> {
        let tenant = TenantId::parse(tenant).unwrap();
        artifacts.of_tenant(&tenant).unwrap()
    }

    fn with_room(room: u64) -> MemoryArtifacts {
        let artifacts = MemoryArtifacts::default();
        artifacts.table().room = room;
        artifacts
    }

    #[tokio::test]
    async fn what_a_tenant_keeps_takes_the_place_of_its_own() {
        let artifacts = with_room(1_000);
        let (acme, beta) = (of(&artifacts, "acme"), of(&artifacts, "beta"));
        let before = keep_in(&*acme, b"before it was changed").await;
        let shared = keep_in(&*acme, b"in both").await;
        assert_eq!(keep_in(&*beta, b"in both").await, shared);
        let mut flooded = Vec::new();
        for letter in b'a'..=b'z' {
            flooded.push(keep_in(&*beta, &[letter; 200]).await);
        }
        for kept in [before, shared] {
            assert!(acme.open(kept).await.is_ok());
        }
        let bytes = artifacts.kept_bytes().await.unwrap();
        assert_eq!(bytes, 21 + 7 + 4 * 200, "what both keep counts once");
        assert!(beta.open(flooded[21]).await.is_err(), "its oldest");
        assert!(beta.open(flooded[22]).await.is_ok());
        // Who has less takes from who has most, and then from its own.
        for letter in b'A'..=b'E' {
            keep_in(&*acme, &[letter; 200]).await;
        }
        assert!(beta.open(flooded[24]).await.is_ok(), "its fair share");
        assert!(acme.open(before).await.is_err(), "its own oldest");
    }

    #[tokio::test]
    async fn what_is_being_written_counts() {
        let artifacts = with_room(1_000);
        let (acme, beta) = (of(&artifacts, "acme"), of(&artifacts, "beta"));
        let before = keep_in(&*acme, b"before it was changed").await;
        let mut writers = Vec::new();
        let refused = loop {
            let mut writing = beta.create().await.unwrap();
            match writing.write(&[0; 200]).await {
                Ok(()) => writers.push(writing),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
        assert_eq!(writers.len(), 4);
        assert_eq!(artifacts.kept_bytes().await.unwrap(), 821);
        assert!(acme.open(before).await.is_ok());
        drop(writers);
        assert_eq!(artifacts.kept_bytes().await.unwrap(), 21);
        keep_in(&*beta, &[0; 900]).await;
    }
}
