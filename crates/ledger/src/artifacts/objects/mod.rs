//! Artifacts as objects in a storage that speaks the S3 protocol: `content/abcdef…`, where `abcdef…`
//! is the BLAKE3 hash (ADR 0037).
//!
//! The hash is known only at the end, so what does not fit into a small buffer waits in a private file
//! of this machine. Then it is sent in one request that never replaces anything, or in parts, which
//! exist only once all have arrived. Content is compared with its hash when it is opened, once for each
//! version of the object, and read in ranges of that version.

mod bucket;
mod expire;
mod failure;
mod read;
mod write;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use haft_contract::{
    BoxFuture,
    host::{
        ArtifactId, ArtifactStore, Clock, LedgerError, LedgerErrorKind, ReadArtifact, Timestamp,
        WriteArtifact,
    },
};
use object_store::{PutMode, PutPayload};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use self::bucket::Bucket;
use self::{
    bucket::{ObjectKind, ObjectVersion},
    failure::RequestFailure,
    read::ObjectReader,
    write::{HeldContent, ObjectWriter},
};
use super::{
    ExpiringArtifacts, ExpiryReport, MAX_ARTIFACT_BYTES, blocking,
    checked::CheckedArtifacts,
    sweep::{self, SWEEP_EVERY, before},
    too_large,
};
use crate::{directory::PrivateDirectory, options::Retention};

/// What is sent or read with one request: 8 MiB. The protocol wants at least 5 in a part.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// How many bytes of contents may be in memory to be sent: 64 MiB, whoever sends them.
const MAX_SENDING_BYTES: usize = 64 * 1024 * 1024;

/// What room for sending is counted in.
const ROOM_BYTES: usize = 64 * 1024;

/// How long sending may wait for room.
const ROOM_WAIT: Duration = Duration::from_mins(1);

/// How many small requests are under way at once for one caller.
const REQUESTS_AT_ONCE: usize = 16;

/// A content that was written or renewed within an hour is not renewed again: retention counts in
/// days, and a request for each look at a content would cost more than the content.
const RENEW_AFTER: Duration = Duration::from_hours(1);

/// Renewals remembered. When there are more, remembering starts over.
const MAX_RENEWALS: usize = 65_536;

/// How long removing old artifacts may take in all.
const EXPIRE_WITHIN: Duration = Duration::from_mins(10);

/// How long adding up what is kept may take in all.
const MEASURE_WITHIN: Duration = Duration::from_mins(10);

/// Artifacts as objects.
pub(crate) struct ObjectArtifacts {
    objects: Arc<Objects>,
}

/// What every reader and writer needs.
struct Objects {
    bucket: Bucket,
    /// Where this machine notes when it last removed old artifacts.
    root: PrivateDirectory,
    /// Where contents are until they are sent.
    writing: PrivateDirectory,
    clock: Arc<dyn Clock>,
    /// Objects whose content was verified against their names.
    checked: CheckedArtifacts<ObjectVersion>,
    /// When this process renewed what.
    renewed: Mutex<HashMap<ArtifactId, i64>>,
    room: Semaphore,
}

impl ObjectArtifacts {
    pub(super) fn new(
        bucket: Bucket,
        root: PrivateDirectory,
        writing: PrivateDirectory,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            objects: Arc::new(Objects {
                bucket,
                root,
                writing,
                clock,
                checked: CheckedArtifacts::default(),
                renewed: Mutex::default(),
                room: Semaphore::new(MAX_SENDING_BYTES / ROOM_BYTES),
            }),
        }
    }
}

impl ArtifactStore for ObjectArtifacts {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        let objects = Arc::clone(&self.objects);
        Box::pin(async move { Ok(Box::new(ObjectWriter::new(objects)) as Box<dyn WriteArtifact>) })
    }

    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        let objects = Arc::clone(&self.objects);
        Box::pin(async move {
            let version = objects.open(id).await?;
            Ok(Arc::new(ObjectReader::new(objects, id, version)) as Arc<dyn ReadArtifact>)
        })
    }

    fn keep_all(
        &self,
        contents: Vec<Vec<u8>>,
    ) -> BoxFuture<'_, Result<Vec<ArtifactId>, LedgerError>> {
        let is_too_large = |content: &Vec<u8>| content.len() as u64 > MAX_ARTIFACT_BYTES;
        if contents.iter().any(is_too_large) {
            return Box::pin(async { Err(too_large()) });
        }
        Box::pin(
            stream::iter(contents)
                .map(|content| {
                    let objects = Arc::clone(&self.objects);
                    let id = ArtifactId {
                        hash: *blake3::hash(&content).as_bytes(),
                        bytes: content.len() as u64,
                    };
                    async move {
                        objects.keep(id, HeldContent::Memory(content)).await?;
                        Ok(id)
                    }
                })
                .buffered(REQUESTS_AT_ONCE)
                .try_collect(),
        )
    }

    fn renew(&self, ids: Vec<ArtifactId>) -> BoxFuture<'_, Result<Vec<bool>, LedgerError>> {
        Box::pin(
            stream::iter(ids)
                .map(|id| {
                    let objects = Arc::clone(&self.objects);
                    async move {
                        let key = objects.bucket.key(ObjectKind::Content, id);
                        match objects.bucket.head(&key).await {
                            Ok(version) if version.bytes == id.bytes => {
                                objects.renew(id, &version).await?;
                                Ok(true)
                            }
                            Ok(_) | Err(RequestFailure::NoObject) => Ok(false),
                            Err(failure) => Err(failure.into()),
                        }
                    }
                })
                .buffered(REQUESTS_AT_ONCE)
                .try_collect(),
        )
    }
}

impl ExpiringArtifacts for ObjectArtifacts {
    fn kept_bytes(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        let objects = Arc::clone(&self.objects);
        Box::pin(async move {
            let kept = expire::kept_bytes(&objects.bucket);
            match tokio::time::timeout(MEASURE_WITHIN, kept).await {
                Ok(kept) => kept,
                Err(_) => Err(LedgerError::new(
                    LedgerErrorKind::Unavailable,
                    "listing the artifacts took too long",
                )),
            }
        })
    }

    fn expire(
        &self,
        now: Timestamp,
        retention: Retention,
    ) -> BoxFuture<'_, Result<ExpiryReport, LedgerError>> {
        let objects = Arc::clone(&self.objects);
        Box::pin(async move {
            let local = Arc::clone(&objects);
            blocking(move || sweep::remove_abandoned(&local.writing, now)).await?;
            let expired = expire::expire(&objects.bucket, now, retention);
            match tokio::time::timeout(EXPIRE_WITHIN, expired).await {
                Ok(expired) => expired,
                Err(_) => Err(LedgerError::new(
                    LedgerErrorKind::Unavailable,
                    "removing old artifacts took too long; the rest will be removed another day",
                )),
            }
        })
    }

    fn take_sweep(&self, now: Timestamp) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let objects = Arc::clone(&self.objects);
        Box::pin(async move {
            // This machine's own note first: it costs no request.
            let local = Arc::clone(&objects);
            if !blocking(move || sweep::take_sweep(&local.root, now)).await? {
                return Ok(false);
            }
            let key = objects.bucket.sweep_key();
            match objects.bucket.head(&key).await {
                Ok(last) if last.written > before(now, SWEEP_EVERY) && last.written <= now.0 => {
                    return Ok(false);
                }
                Ok(_) | Err(RequestFailure::NoObject) => {}
                Err(failure) => return Err(failure.into()),
            }
            // If two machines come here at once, both remove, and what is gone is gone.
            let stamp = PutPayload::default();
            objects.bucket.put(&key, stamp, PutMode::Overwrite).await?;
            Ok(true)
        })
    }
}

impl Objects {
    /// Restarts the retention period of a content, unless that was done within the hour.
    async fn renew(&self, id: ArtifactId, version: &ObjectVersion) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let recently = before(now, RENEW_AFTER);
        let renewed = || self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |written: &i64| *written > recently;
        if is_recent(&version.written) || renewed().get(&id).is_some_and(is_recent) {
            return Ok(());
        }
        let key = self.bucket.key(ObjectKind::Renewal, id);
        let nothing = PutPayload::default();
        self.bucket.put(&key, nothing, PutMode::Overwrite).await?;
        let mut renewed = renewed();
        if renewed.len() >= MAX_RENEWALS {
            renewed.clear();
        }
        renewed.insert(id, now.0);
        Ok(())
    }

    /// Waits until this many bytes may be in memory to be sent.
    async fn room(&self, bytes: usize) -> Result<SemaphorePermit<'_>, LedgerError> {
        let units = bytes.min(PART_BYTES).div_ceil(ROOM_BYTES).max(1);
        let units = u32::try_from(units).unwrap_or(1);
        match tokio::time::timeout(ROOM_WAIT, self.room.acquire_many(units)).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(LedgerError::new(
                LedgerErrorKind::Unavailable,
                "too much is being sent to the artifact storage; it is slower than what is kept",
            )),
        }
    }
}
