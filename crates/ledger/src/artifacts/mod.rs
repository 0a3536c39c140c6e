//! Bytes kept by content hash: spilled output and file pre-images, as files of this machine or as
//! objects in a storage that many machines use.
//!
//! Whoever may open an artifact is decided by the record, which names it; here a name is all it takes.
//! Read next: `files/mod.rs`, `objects/mod.rs`.

mod checked;
mod files;
pub(crate) mod memory;
mod object_storage;
#[cfg(feature = "object-storage")]
mod objects;
mod sweep;

use std::sync::Arc;

use haft_contract::{
    BoxFuture, TenantId,
    host::{ArtifactId, ArtifactStore, LedgerError, LedgerErrorKind, Timestamp},
};

pub use self::object_storage::ObjectStorage;
use self::{files::FileArtifacts, memory::MemoryArtifacts};
use crate::{
    directory::PrivateDirectory,
    open_error::OpenError,
    options::{LedgerOptions, Retention},
};

/// The largest artifact kept: 256 MiB.
pub const MAX_ARTIFACT_BYTES: u64 = 256 * 1024 * 1024;

/// The most bytes one read returns: 16 MiB.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;

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

/// Artifacts with retention.
pub trait ExpiringArtifacts: ArtifactStore {
    /// The bytes of all artifacts. Only looks: nothing is removed, however old it is.
    fn kept_bytes(&self) -> BoxFuture<'_, Result<u64, LedgerError>>;

    /// Removes artifacts that are older than the retention time, then the oldest until at most the
    /// allowed bytes are kept. What was left behind half written is removed too.
    fn expire(
        &self,
        now: Timestamp,
        retention: Retention,
    ) -> BoxFuture<'_, Result<ExpiryReport, LedgerError>>;

    /// The same artifacts, where what is kept counts for a tenant; `None` where tenants do not compete
    /// for room.
    fn of_tenant(&self, tenant: &TenantId) -> Option<Arc<dyn ArtifactStore>> {
        let _ = tenant;
        None
    }

    /// Whether nobody expired anything within a day; if so, it counts as done now.
    fn take_sweep(&self, now: Timestamp) -> BoxFuture<'_, Result<bool, LedgerError>>;

    /// Expires unless somebody did so within a day. Errors are only logged: a writable record is not
    /// refused because something old cannot be removed.
    fn expire_daily(&self, now: Timestamp, retention: Retention) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let swept = match self.take_sweep(now).await {
                Ok(true) => self.expire(now, retention).await,
                Ok(false) => return,
                Err(error) => Err(error),
            };
            match swept {
                Ok(ExpiryReport { removed: 0, .. }) => {}
                Ok(ExpiryReport { removed, bytes, .. }) => {
                    tracing::info!(removed, bytes, "old artifacts were removed");
                }
                Err(error) => tracing::warn!(%error, "old artifacts could not be removed"),
            }
        })
    }
}

/// What keeps the artifacts of a record: the one place that knows every kind.
pub(crate) enum ArtifactBacking {
    Files,
    Memory(MemoryArtifacts),
    #[cfg(feature = "object-storage")]
    Objects(objects::Bucket, Arc<dyn haft_contract::host::Clock>),
}

impl ArtifactBacking {
    /// Whether requests are needed to reach it, which may take long or fail.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, Self::Files | Self::Memory(_))
    }

    /// What the options name; files if they name nothing. Reads the settings and connects to nothing.
    pub(crate) fn of(options: &LedgerOptions) -> Result<Self, OpenError> {
        let Some(storage) = &options.artifacts else {
            let memory = options.memory.as_ref();
            return Ok(memory.map_or(Self::Files, |memory| Self::Memory(memory.artifacts())));
        };
        #[cfg(feature = "object-storage")]
        return Ok(Self::Objects(
            objects::Bucket::at(storage)?,
            Arc::clone(&options.clock),
        ));
        #[cfg(not(feature = "object-storage"))]
        {
            let _ = storage;
            Err(OpenError::NoObjectStorage)
        }
    }

    /// The artifacts. What is being written lies in the record's directory.
    pub(crate) fn open(
        self,
        directory: &PrivateDirectory,
    ) -> Result<Arc<dyn ExpiringArtifacts>, OpenError> {
        let directories = || {
            let root = directory.subdirectory("artifacts")?;
            let writing = root.subdirectory("writing")?;
            Ok::<_, OpenError>((root, writing))
        };
        Ok(match self {
            Self::Memory(artifacts) => Arc::new(artifacts),
            Self::Files => {
                let (root, writing) = directories()?;
                Arc::new(FileArtifacts::new(root, writing))
            }
            #[cfg(feature = "object-storage")]
            Self::Objects(bucket, clock) => {
                let (root, writing) = directories()?;
                Arc::new(objects::ObjectArtifacts::new(bucket, root, writing, clock))
            }
        })
    }
}

fn not_found(id: ArtifactId) -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::NotFound,
        format!("there is no artifact `{id}`; it may have expired"),
    )
}

fn changed(id: ArtifactId) -> LedgerError {
    tracing::warn!(artifact = %id, "an artifact was changed after it was kept");
    LedgerError::new(
        LedgerErrorKind::Corrupt,
        format!(
            "artifact `{id}` was changed after it was kept; do not rely on it, run the call again"
        ),
    )
}

fn too_large() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::LimitExceeded,
        format!("an artifact may hold at most {MAX_ARTIFACT_BYTES} bytes"),
    )
}

/// A writer was used after it had failed.
fn gone() -> LedgerError {
    LedgerError::new(
        LedgerErrorKind::Unavailable,
        "the artifact can no longer be written",
    )
}

/// Runs file I/O on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
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
