//! Bytes kept by content hash, as files: `artifacts/ab/cdef…`, where `abcdef…` is the BLAKE3 hash.
//!
//! An artifact is written to a private file with an unguessable name, made durable, and then
//! renamed to its hash, so that a name always leads to complete content. The same content is kept
//! once. Content is compared with its hash when it is opened, once for each version of the file.
//! File I/O happens on blocking threads only.

mod batch;

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
    sync::Arc,
};

use haft_contract::{
    BoxFuture,
    host::{ArtifactId, ArtifactStore, LedgerError, ReadArtifact, Timestamp, WriteArtifact},
};

use super::{
    ExpiringArtifacts, ExpiryReport, MAX_ARTIFACT_BYTES, MAX_READ_BYTES, blocking, changed,
    checked::CheckedArtifacts,
    gone, not_found, sweep,
    sweep::{before, written_at},
    too_large,
};
use crate::{
    directory::{PrivateDirectory, random_name},
    options::Retention,
};

/// Artifacts as files in a private directory.
#[derive(Debug)]
pub(super) struct FileArtifacts {
    folders: Arc<Folders>,
}

#[derive(Debug)]
struct Folders {
    root: PrivateDirectory,
    writing: PrivateDirectory,
    /// Files whose content was verified against their names, identified as they were then.
    checked: CheckedArtifacts<FileIdentity>,
}

/// The file's identity and when it last changed. The kernel sets the change time, so nobody who
/// writes to the file can reset it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// An artifact as it lies there, ordered by age.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeptFile {
    /// When it was written or renewed, in microseconds since 1970.
    written: i64,
    bytes: u64,
    /// Its folder and its name.
    path: PathBuf,
}

/// The result of looking an artifact up.
enum FoundArtifact {
    Whole(File),
    Nothing,
    /// Its content does not match its name.
    Changed,
}

impl FileArtifacts {
    /// The artifacts in a directory, with one inside it for what is being written.
    pub(super) fn new(root: PrivateDirectory, writing: PrivateDirectory) -> Self {
        Self {
            folders: Arc::new(Folders {
                root,
                writing,
                checked: CheckedArtifacts::default(),
            }),
        }
    }
}

impl ExpiringArtifacts for FileArtifacts {
    fn kept_bytes(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(blocking(move || {
            let kept = folders.kept()?;
            Ok(kept.iter().map(|file| file.bytes).sum::<u64>())
        }))
    }

    fn expire(
        &self,
        now: Timestamp,
        retention: Retention,
    ) -> BoxFuture<'_, Result<ExpiryReport, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(blocking(move || folders.expire(now, retention)))
    }

    fn take_sweep(&self, now: Timestamp) -> BoxFuture<'_, Result<bool, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(blocking(move || sweep::take_sweep(&folders.root, now)))
    }
}

impl ArtifactStore for FileArtifacts {
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(async move {
            let writing = blocking(move || ArtifactFile::start(folders)).await?;
            Ok(Box::new(Writer(Some(writing))) as Box<dyn WriteArtifact>)
        })
    }

    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(async move {
            let file = match blocking(move || folders.open(id)).await? {
                FoundArtifact::Whole(file) => Arc::new(file),
                FoundArtifact::Nothing => return Err(not_found(id)),
                FoundArtifact::Changed => return Err(changed(id)),
            };
            Ok(Arc::new(Reader { id, file }) as Arc<dyn ReadArtifact>)
        })
    }

    fn keep_all(
        &self,
        contents: Vec<Vec<u8>>,
    ) -> BoxFuture<'_, Result<Vec<ArtifactId>, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(blocking(move || folders.keep_all(&contents)))
    }

    fn renew(&self, ids: Vec<ArtifactId>) -> BoxFuture<'_, Result<Vec<bool>, LedgerError>> {
        let folders = Arc::clone(&self.folders);
        Box::pin(blocking(move || folders.renew(&ids)))
    }
}

/// An artifact being written. `None` only after a failed write, which removed the file.
struct Writer(Option<ArtifactFile>);

impl WriteArtifact for Writer {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let mut writing = self.0.take().ok_or_else(gone)?;
            let total = writing.bytes.saturating_add(bytes.len() as u64);
            if total > MAX_ARTIFACT_BYTES {
                return Err(too_large());
            }
            let bytes = bytes.to_vec();
            let written = blocking(move || {
                writing.hasher.update(&bytes);
                writing.file.write_all(&bytes)?;
                writing.bytes = total;
                Ok(writing)
            });
            self.0 = Some(written.await?);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>> {
        Box::pin(async move {
            let writing = self.0.take().ok_or_else(gone)?;
            blocking(move || writing.finish()).await
        })
    }
}

/// A private file that becomes an artifact, or is removed when dropped.
struct ArtifactFile {
    folders: Arc<Folders>,
    name: String,
    file: File,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl ArtifactFile {
    fn start(folders: Arc<Folders>) -> io::Result<Self> {
        let name = random_name()?;
        let file = folders.writing.create_new(&name)?;
        Ok(Self {
            folders,
            name,
            file,
            hasher: blake3::Hasher::new(),
            bytes: 0,
        })
    }

    fn finish(self) -> io::Result<ArtifactId> {
        let id = ArtifactId {
            hash: *self.hasher.finalize().as_bytes(),
            bytes: self.bytes,
        };
        self.file.sync_all()?;
        let (folder, name) = place(id);
        let folder = self
            .folders
            .root
            .subdirectory(&folder)
            .map_err(io::Error::other)?;
        // Replacing an equal artifact also renews its age, which retention uses.
        self.folders.writing.rename(&self.name, &folder, &name)?;
        folder.sync()?;
        self.folders.root.sync()?;
        Ok(id)
    }
}

impl Drop for ArtifactFile {
    fn drop(&mut self) {
        // Already gone if it was finished.
        let _ = self.folders.writing.remove(&self.name);
    }
}

struct Reader {
    id: ArtifactId,
    file: Arc<File>,
}

impl ReadArtifact for Reader {
    fn id(&self) -> ArtifactId {
        self.id
    }

    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Vec<u8>, LedgerError>> {
        let file = Arc::clone(&self.file);
        let left = self.id.bytes.saturating_sub(offset);
        let len = len
            .min(MAX_READ_BYTES)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        Box::pin(blocking(move || {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        }))
    }
}

impl Folders {
    fn open(&self, id: ArtifactId) -> io::Result<FoundArtifact> {
        let (folder, name) = place(id);
        let folder = self.root.subdirectory(&folder).map_err(io::Error::other)?;
        let file = match folder.open_existing(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(FoundArtifact::Nothing);
            }
            Err(error) => return Err(error),
        };
        // If the size does not match the id, it is another artifact or damaged.
        let metadata = file.metadata()?;
        if metadata.len() != id.bytes {
            return Ok(FoundArtifact::Nothing);
        }
        let standing = FileIdentity::of(&metadata);
        if self.checked.version(id) == Some(standing) {
            return Ok(FoundArtifact::Whole(file));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&file).take(id.bytes))?;
        if *hasher.finalize().as_bytes() != id.hash {
            return Ok(FoundArtifact::Changed);
        }
        self.checked.remember(id, standing);
        Ok(FoundArtifact::Whole(file))
    }

    /// Every artifact.
    fn kept(&self) -> io::Result<Vec<KeptFile>> {
        let mut kept = Vec::new();
        for folder in self.root.names()? {
            if folder.len() != 2 {
                continue;
            }
            let folder = self.root.subdirectory(&folder).map_err(io::Error::other)?;
            for name in folder.names()? {
                let metadata = match folder.open_existing(&name) {
                    Ok(file) => file.metadata()?,
                    // Another process is expiring too.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                let path = PathBuf::from(folder.path().file_name().unwrap_or_default());
                kept.push(KeptFile {
                    written: written_at(&metadata),
                    bytes: metadata.len(),
                    path: path.join(name),
                });
            }
        }
        Ok(kept)
    }

    fn expire(&self, now: Timestamp, retention: Retention) -> io::Result<ExpiryReport> {
        let mut kept = self.kept()?;
        kept.sort();
        let oldest = before(now, retention.kept_for);
        let mut expired = ExpiryReport {
            kept_bytes: kept.iter().map(|file| file.bytes).sum(),
            ..ExpiryReport::default()
        };
        for KeptFile {
            written,
            bytes,
            path,
        } in kept
        {
            if written >= oldest && expired.kept_bytes <= retention.max_total_bytes {
                break;
            }
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            let folder = self
                .root
                .subdirectory(&folder.to_string_lossy())
                .map_err(io::Error::other)?;
            folder.remove(&name.to_string_lossy())?;
            expired.removed += 1;
            expired.bytes += bytes;
            expired.kept_bytes -= bytes;
        }
        sweep::remove_abandoned(&self.writing, now)?;
        Ok(expired)
    }
}

/// The folder and file name of an artifact.
fn place(id: ArtifactId) -> (String, String) {
    let mut folder = id.hex();
    let name = folder.split_off(2);
    (folder, name)
}
