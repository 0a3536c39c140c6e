//! Keeping a content: what is written is hashed and waits aside, and is sent when its name is known.

use std::{fs::File, io::Write as _, os::unix::fs::FileExt as _, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use haft_contract::{
    BoxFuture,
    host::{ArtifactId, LedgerError, LedgerErrorKind, WriteArtifact},
};
use object_store::{MultipartUpload, PutMode, PutPayload, path::Path};

use super::{
    Objects, PART_BYTES,
    bucket::{ObjectKind, within},
    failure::RequestFailure,
    read::FoundObject,
};
use crate::{
    artifacts::{MAX_ARTIFACT_BYTES, blocking, gone, too_large},
    directory::random_name,
};

/// What a writer holds in memory before it makes a file.
const MAX_IN_MEMORY: usize = 64 * 1024;

/// How many parts of one content are under way at once.
const PARTS_AT_ONCE: usize = 2;

/// How long all parts of one content may take.
const UPLOAD_WITHIN: Duration = Duration::from_mins(5);

/// How often a content is offered that the storage says it has and then has not.
const MAX_OFFERS: u32 = 4;

/// The pause after the first such offer; it doubles.
const OFFER_PAUSE: Duration = Duration::from_millis(100);

/// An artifact being written. The content is `None` only after a failed write.
pub(super) struct ObjectWriter {
    objects: Arc<Objects>,
    content: Option<UnnamedContent>,
}

/// Content whose hash is not known yet.
struct UnnamedContent {
    hasher: blake3::Hasher,
    bytes: u64,
    in_memory: Vec<u8>,
    /// Holds everything once there is one. It has no name, so it is gone with the process.
    file: Option<File>,
}

/// Content that is about to be sent.
pub(super) enum HeldContent {
    Memory(Vec<u8>),
    File(Arc<File>),
}

impl ObjectWriter {
    pub(super) fn new(objects: Arc<Objects>) -> Self {
        Self {
            objects,
            content: Some(UnnamedContent {
                hasher: blake3::Hasher::new(),
                bytes: 0,
                in_memory: Vec::new(),
                file: None,
            }),
        }
    }
}

impl WriteArtifact for ObjectWriter {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let mut content = self.content.take().ok_or_else(gone)?;
            content.bytes = content.bytes.saturating_add(bytes.len() as u64);
            if content.bytes > MAX_ARTIFACT_BYTES {
                return Err(too_large());
            }
            content.in_memory.extend_from_slice(bytes);
            if content.in_memory.len() > MAX_IN_MEMORY {
                let objects = Arc::clone(&self.objects);
                let written = blocking(move || {
                    content.hasher.update(&content.in_memory);
                    if content.file.is_none() {
                        let name = random_name()?;
                        content.file = Some(objects.writing.create_new(&name)?);
                        objects.writing.remove(&name)?;
                    }
                    if let Some(file) = &mut content.file {
                        file.write_all(&content.in_memory)?;
                    }
                    content.in_memory.clear();
                    content.in_memory.shrink_to(MAX_IN_MEMORY);
                    Ok(content)
                });
                content = written.await?;
            }
            self.content = Some(content);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>> {
        Box::pin(async move {
            let mut content = self.content.take().ok_or_else(gone)?;
            content.hasher.update(&content.in_memory);
            let id = ArtifactId {
                hash: *content.hasher.finalize().as_bytes(),
                bytes: content.bytes,
            };
            let held = match content.file {
                None => HeldContent::Memory(content.in_memory),
                Some(mut file) => {
                    let rest = content.in_memory;
                    let whole = blocking(move || {
                        file.write_all(&rest)?;
                        Ok(file)
                    });
                    HeldContent::File(Arc::new(whole.await?))
                }
            };
            self.objects.keep(id, held).await?;
            Ok(id)
        })
    }
}

impl HeldContent {
    /// A part of the content.
    async fn part(&self, offset: u64, len: usize) -> Result<PutPayload, LedgerError> {
        match self {
            Self::Memory(content) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let part = content.get(from..).unwrap_or_default();
                Ok(part.get(..len).unwrap_or(part).to_vec().into())
            }
            Self::File(file) => {
                let file = Arc::clone(file);
                let part = blocking(move || {
                    let mut part = vec![0; len];
                    file.read_exact_at(&mut part, offset)?;
                    Ok(part)
                });
                Ok(part.await?.into())
            }
        }
    }

    /// All of a content that is no longer than a part.
    async fn whole(self, bytes: u64) -> Result<PutPayload, LedgerError> {
        match self {
            Self::Memory(content) => Ok(content.into()),
            Self::File(_) => {
                let bytes = usize::try_from(bytes).unwrap_or(PART_BYTES);
                self.part(0, bytes.min(PART_BYTES)).await
            }
        }
    }
}

impl Objects {
    /// Keeps a content under its hash. The same content is kept once.
    pub(super) async fn keep(
        self: &Arc<Self>,
        id: ArtifactId,
        content: HeldContent,
    ) -> Result<(), LedgerError> {
        if id.bytes <= PART_BYTES as u64 {
            return self.offer(id, content).await;
        }
        // A task of its own: if nobody waits for it any longer, it still ends what it began, or
        // takes back the parts that were sent.
        let objects = Arc::clone(self);
        let sent = tokio::spawn(async move { objects.send_parts(id, &content).await });
        sent.await.map_err(|_| gone())?
    }

    /// Sends a content in one request, unless the storage has it.
    async fn offer(&self, id: ArtifactId, content: HeldContent) -> Result<(), LedgerError> {
        let key = self.bucket.key(ObjectKind::Content, id);
        let _room = self
            .room(usize::try_from(id.bytes).unwrap_or(PART_BYTES))
            .await?;
        let content = content.whole(id.bytes).await?;
        let mut pause = OFFER_PAUSE;
        for _ in 0..MAX_OFFERS {
            match self
                .bucket
                .put(&key, content.clone(), PutMode::Create)
                .await
            {
                Ok(()) => return Ok(()),
                // It overwrites, at worst with the same bytes.
                Err(RequestFailure::Unsupported) => {
                    let put = self.bucket.put(&key, content, PutMode::Overwrite);
                    return Ok(put.await?);
                }
                Err(RequestFailure::Exists) => {}
                Err(failure) => return Err(failure.into()),
            }
            match self.find(id).await? {
                FoundObject::Whole(version) => return self.renew(id, &version).await,
                // Somebody who may write to the bucket changed it; this puts it right.
                FoundObject::Changed => {
                    let put = self.bucket.put(&key, content, PutMode::Overwrite);
                    return Ok(put.await?);
                }
                // Somebody else is about to write it, or it expired in between.
                FoundObject::Nothing => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
            }
        }
        Err(RequestFailure::Exists.into())
    }

    /// Sends a content in parts, unless the storage has it.
    async fn send_parts(&self, id: ArtifactId, content: &HeldContent) -> Result<(), LedgerError> {
        if let FoundObject::Whole(version) = self.find(id).await? {
            return self.renew(id, &version).await;
        }
        let key: Path = self.bucket.key(ObjectKind::Content, id);
        let mut upload = self.bucket.begin_parts(&key).await?;
        let sent = self.each_part(id, content, &mut *upload);
        let sent = match tokio::time::timeout(UPLOAD_WITHIN, sent).await {
            Ok(sent) => sent,
            Err(_) => Err(LedgerError::new(
                LedgerErrorKind::Unavailable,
                "sending to the artifact storage took too long",
            )),
        };
        let ended = match sent {
            Ok(()) => within(upload.complete()).await.map_err(LedgerError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            // If this fails too, the parts stay until a rule of the bucket removes them.
            if let Err(failure) = within(upload.abort()).await {
                tracing::warn!(?failure, "parts of an artifact were left in the storage");
            }
            return Err(error);
        }
        Ok(())
    }

    async fn each_part(
        &self,
        id: ArtifactId,
        content: &HeldContent,
        upload: &mut dyn MultipartUpload,
    ) -> Result<(), LedgerError> {
        let mut under_way = FuturesUnordered::new();
        let mut offset = 0;
        while offset < id.bytes {
            let len = usize::try_from(id.bytes - offset).unwrap_or(PART_BYTES);
            let len = len.min(PART_BYTES);
            // Parts under way hold room too, and must not stand still while this one waits for some.
            let room = loop {
                tokio::select! {
                    Some(sent) = under_way.next() => {
                        let () = sent?;
                    }
                    room = self.room(len), if under_way.len() < PARTS_AT_ONCE => break room?,
                }
            };
            let part = upload.put_part(content.part(offset, len).await?);
            under_way.push(async move {
                let sent = within(part).await;
                drop(room);
                sent.map_err(LedgerError::from)
            });
            offset += len as u64;
        }
        while let Some(sent) = under_way.next().await {
            let () = sent?;
        }
        Ok(())
    }
}
