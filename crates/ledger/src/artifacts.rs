//! Bytes kept by content hash, as files: `artifacts/ab/cdef…`, where `abcdef…` is the BLAKE3 hash.
//!
//! An artifact is written to a private file with an unguessable name, made durable, and then
//! renamed to its hash, so that a name always leads to complete content. The same content is kept
//! once. Content is compared with its hash when it is opened, once for each version of the file.
//! File I/O happens on blocking threads only.

mod batch;

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    BoxFuture,
    host::{
        ArtifactId, ArtifactStore, LedgerError, LedgerErrorKind, ReadArtifact, Timestamp,
        WriteArtifact,
    },
};

use crate::{
    directory::{DirectoryError, PrivateDirectory, random_name},
    options::Retention,
};

/// The largest artifact kept: 256 MiB.
pub const MAX_ARTIFACT_BYTES: u64 = 256 * 1024 * 1024;

/// The most bytes one read returns: 16 MiB.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;

/// Artifacts remembered as verified. When the cache is full, it starts over.
const MAX_CHECKED: usize = 4_096;

/// A partial artifact older than this was left by a process that is gone.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// How often old artifacts are removed. Not at every start: a command line opens the ledger for
/// each call.
const SWEEP_EVERY: Duration = Duration::from_hours(24);

/// Holds the time of the last sweep, in microseconds since 1970. Its name begins with a dot, which
/// no artifact's does.
const SWEPT: &str = ".swept";

/// Artifacts as files in a private directory.
#[derive(Debug)]
pub struct FileArtifacts {
    folders: Arc<Folders>,
}

/// What retention removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpiryReport {
    /// Artifacts removed.
    pub removed: u64,
    /// Bytes freed.
    pub bytes: u64,
    /// Bytes still kept.
    pub kept_bytes: u64,
}

#[derive(Debug)]
struct Folders {
    root: PrivateDirectory,
    writing: PrivateDirectory,
    /// Files whose content was verified against their names, identified as they were then.
    checked: Mutex<HashMap<ArtifactId, FileIdentity>>,
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

/// The result of looking an artifact up.
enum FoundArtifact {
    Whole(File),
    Nothing,
    /// Its content does not match its name.
    Changed,
}

impl FileArtifacts {
    /// Opens the artifacts inside the record's directory.
    pub(crate) fn open(directory: &PrivateDirectory) -> Result<Self, DirectoryError> {
        let root = directory.subdirectory("artifacts")?;
        let writing = root.subdirectory("writing")?;
        Ok(Self {
            folders: Arc::new(Folders {
                root,
                writing,
                checked: Mutex::default(),
            }),
        })
    }

    /// Removes artifacts that are older than the retention time, then the oldest until at most the
    /// allowed bytes are kept. Abandoned partial files are removed too.
    pub async fn expire(
        &self,
        now: Timestamp,
        retention: Retention,
    ) -> Result<ExpiryReport, LedgerError> {
        let folders = Arc::clone(&self.folders);
        blocking(move || folders.expire(now, retention)).await
    }

    /// Does the same unless a process did so within a day. Errors are only logged: a writable
    /// record is not refused because something old cannot be removed.
    pub async fn expire_daily(&self, now: Timestamp, retention: Retention) {
        let folders = Arc::clone(&self.folders);
        let swept = blocking(move || {
            if folders.take_sweep(now)? {
                folders.expire(now, retention)
            } else {
                Ok(ExpiryReport::default())
            }
        });
        if let Ok(ExpiryReport { removed, bytes, .. }) = swept.await
            && removed > 0
        {
            tracing::info!(removed, bytes, "old artifacts were removed");
        }
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
                FoundArtifact::Nothing => {
                    return Err(LedgerError::new(
                        LedgerErrorKind::NotFound,
                        format!("there is no artifact `{id}`; it may have expired"),
                    ));
                }
                FoundArtifact::Changed => {
                    return Err(LedgerError::new(
                        LedgerErrorKind::Corrupt,
                        format!(
                            "artifact `{id}` was changed after it was kept; do not rely on it, \
                             run the call again"
                        ),
                    ));
                }
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
                return Err(LedgerError::new(
                    LedgerErrorKind::LimitExceeded,
                    format!("an artifact may hold at most {MAX_ARTIFACT_BYTES} bytes"),
                ));
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
        if self.checked().get(&id) == Some(&standing) {
            return Ok(FoundArtifact::Whole(file));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&file).take(id.bytes))?;
        if *hasher.finalize().as_bytes() != id.hash {
            tracing::warn!(artifact = %id, "an artifact was changed after it was kept");
            return Ok(FoundArtifact::Changed);
        }
        let mut checked = self.checked();
        if checked.len() >= MAX_CHECKED {
            checked.clear();
        }
        checked.insert(id, standing);
        drop(checked);
        Ok(FoundArtifact::Whole(file))
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<ArtifactId, FileIdentity>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a sweep is due; if so, marks it as done.
    fn take_sweep(&self, now: Timestamp) -> io::Result<bool> {
        let mut stamp = self.root.open_or_create(SWEPT)?;
        let mut text = Vec::new();
        (&stamp).take(32).read_to_end(&mut text)?;
        let last = String::from_utf8_lossy(&text).parse::<i64>();
        // A sweep only ever writes a number.
        let last = last.unwrap_or(i64::MIN);
        // A stamp from the future, written before the clock was set back, must not stop sweeping.
        if last > before(now, SWEEP_EVERY) && last <= now.0 {
            return Ok(false);
        }
        stamp.rewind()?;
        stamp.set_len(0)?;
        stamp.write_all(now.0.to_string().as_bytes())?;
        Ok(true)
    }

    fn expire(&self, now: Timestamp, retention: Retention) -> io::Result<ExpiryReport> {
        let mut kept: Vec<(i64, u64, PathBuf)> = Vec::new();
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
                kept.push((written_at(&metadata), metadata.len(), path.join(name)));
            }
        }
        kept.sort();
        let oldest = before(now, retention.kept_for);
        let mut expired = ExpiryReport {
            kept_bytes: kept.iter().map(|(_, bytes, _)| bytes).sum(),
            ..ExpiryReport::default()
        };
        for (written, bytes, path) in kept {
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
        for name in self.writing.names()? {
            // If it is gone by now, it was finished.
            if let Ok(file) = self.writing.open_existing(&name)
                && written_at(&file.metadata()?) < before(now, ABANDONED_AFTER)
            {
                self.writing.remove(&name)?;
            }
        }
        Ok(expired)
    }
}

/// The folder and file name of an artifact.
fn place(id: ArtifactId) -> (String, String) {
    let mut folder = id.hex();
    let name = folder.split_off(2);
    (folder, name)
}

/// When a file was last written, in microseconds since 1970.
fn written_at(metadata: &std::fs::Metadata) -> i64 {
    metadata
        .mtime()
        .saturating_mul(1_000_000)
        .saturating_add(metadata.mtime_nsec() / 1_000)
}

fn before(now: Timestamp, duration: Duration) -> i64 {
    now.0
        .saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LedgerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            tracing::warn!(%error, "an artifact could not be read or written");
            Err(LedgerError::new(
                LedgerErrorKind::Unavailable,
                format!("the artifact store failed: {}", error.kind()),
            ))
        }
        Err(_) => Err(gone()),
    }
}

fn gone() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "the artifact cannot be written any more",
    )
}
