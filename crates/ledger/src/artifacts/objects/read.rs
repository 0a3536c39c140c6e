//! Opening a content, comparing it with its hash, and reading ranges of what was compared.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::stream::StreamExt as _;
use haft_contract::{
    BoxFuture,
    host::{ArtifactId, LedgerError, ReadArtifact},
};
use object_store::GetResult;

use super::{
    Objects, PART_BYTES,
    bucket::{ObjectKind, ObjectVersion, within},
    failure::RequestFailure,
};
use crate::artifacts::{MAX_READ_BYTES, changed, not_found};

/// How often a content is compared that is written anew meanwhile.
const MAX_LOOKS: usize = 4;

/// The result of looking an artifact up.
pub(super) enum FoundObject {
    Whole(ObjectVersion),
    Nothing,
    /// Its content does not match its name.
    Changed,
}

/// An open artifact.
pub(super) struct ObjectReader {
    objects: Arc<Objects>,
    id: ArtifactId,
    /// The version that was compared with the hash.
    version: Mutex<ObjectVersion>,
}

impl ObjectReader {
    pub(super) fn new(objects: Arc<Objects>, id: ArtifactId, version: ObjectVersion) -> Self {
        Self {
            objects,
            id,
            version: Mutex::new(version),
        }
    }
}

impl ReadArtifact for ObjectReader {
    fn id(&self) -> ArtifactId {
        self.id
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Vec<u8>, LedgerError>> {
        let len = len.min(MAX_READ_BYTES) as u64;
        let end = offset.saturating_add(len).min(self.id.bytes);
        Box::pin(async move {
            if offset >= end {
                return Ok(Vec::new());
            }
            let version = || self.version.lock().unwrap_or_else(PoisonError::into_inner);
            let known = version().clone();
            if let Some(bytes) = self.objects.read(self.id, offset..end, &known).await? {
                return Ok(bytes);
            }
            // It is not the version that was opened, but may have the same content.
            let found = self.objects.verified(self.id).await?;
            *version() = found.clone();
            let read = self.objects.read(self.id, offset..end, &found).await?;
            read.ok_or_else(|| changed(self.id))
        })
    }
}

impl Objects {
    /// The version of an artifact whose content is what its name says.
    pub(super) async fn open(&self, id: ArtifactId) -> Result<ObjectVersion, LedgerError> {
        if let Some(checked) = self.checked.version(id) {
            let key = self.bucket.key(ObjectKind::Content, id);
            match self.bucket.head(&key).await {
                Ok(version) if version == checked => return Ok(version),
                Ok(_) => {}
                Err(RequestFailure::NoObject) => return Err(not_found(id)),
                Err(failure) => return Err(failure.into()),
            }
        }
        self.verified(id).await
    }

    async fn verified(&self, id: ArtifactId) -> Result<ObjectVersion, LedgerError> {
        match self.find(id).await? {
            FoundObject::Whole(version) => Ok(version),
            FoundObject::Nothing => Err(not_found(id)),
            FoundObject::Changed => Err(changed(id)),
        }
    }

    /// Looks a content up and compares it with its hash.
    pub(super) async fn find(&self, id: ArtifactId) -> Result<FoundObject, LedgerError> {
        for _ in 0..MAX_LOOKS {
            if let Some(found) = self.compare(id).await? {
                return Ok(found);
            }
        }
        Err(RequestFailure::Exists.into())
    }

    /// The same, without holding more than a piece of it; nothing if somebody wrote the same name
    /// meanwhile, which is what a second writer of the same long content does.
    async fn compare(&self, id: ArtifactId) -> Result<Option<FoundObject>, LedgerError> {
        let key = self.bucket.key(ObjectKind::Content, id);
        let standing = match self.bucket.head(&key).await {
            Ok(version) => version,
            Err(RequestFailure::NoObject) => return Ok(Some(FoundObject::Nothing)),
            Err(failure) => return Err(failure.into()),
        };
        if standing.bytes != id.bytes {
            return Ok(Some(FoundObject::Changed));
        }
        if self.checked.version(id).as_ref() == Some(&standing) {
            return Ok(Some(FoundObject::Whole(standing)));
        }
        let mut hasher = blake3::Hasher::new();
        let mut offset = 0;
        while offset < id.bytes {
            let end = id.bytes.min(offset + PART_BYTES as u64);
            let got = match self.bucket.get(&key, offset..end, Some(&standing)).await {
                Ok(got) if ObjectVersion::of(&got.meta) == standing => got,
                Ok(_) | Err(RequestFailure::OtherVersion) => return Ok(None),
                Err(RequestFailure::NoObject) => return Ok(Some(FoundObject::Nothing)),
                Err(failure) => return Err(failure.into()),
            };
            let hash = |piece: &[u8]| {
                hasher.update(piece);
            };
            if each_piece(got, hash).await? != end - offset {
                return Ok(Some(FoundObject::Changed));
            }
            offset = end;
        }
        if *hasher.finalize().as_bytes() != id.hash {
            return Ok(Some(FoundObject::Changed));
        }
        self.checked.remember(id, standing.clone());
        Ok(Some(FoundObject::Whole(standing)))
    }

    /// A range of one version of an object; nothing if there is another version or none.
    async fn read(
        &self,
        id: ArtifactId,
        range: Range<u64>,
        version: &ObjectVersion,
    ) -> Result<Option<Vec<u8>>, LedgerError> {
        let key = self.bucket.key(ObjectKind::Content, id);
        let len = range.end - range.start;
        let got = match self.bucket.get(&key, range, Some(version)).await {
            Ok(got) if ObjectVersion::of(&got.meta) == *version => got,
            Ok(_) | Err(RequestFailure::OtherVersion | RequestFailure::NoObject) => {
                return Ok(None);
            }
            Err(failure) => return Err(failure.into()),
        };
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        let read = each_piece(got, |piece| bytes.extend_from_slice(piece)).await?;
        Ok((read == len).then_some(bytes))
    }
}

/// Hands on what arrives, piece by piece, and returns how many bytes there were.
async fn each_piece(got: GetResult, mut hand_on: impl FnMut(&[u8])) -> Result<u64, RequestFailure> {
    let most = got.range.end - got.range.start;
    let mut pieces = got.into_stream();
    within(async move {
        let mut bytes = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            bytes += piece.len() as u64;
            // More than was asked for is not held.
            if bytes > most {
                break;
            }
            hand_on(&piece);
        }
        Ok(bytes)
    })
    .await
}
