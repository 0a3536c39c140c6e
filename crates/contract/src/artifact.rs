//! Bytes kept by content hash: spilled output and file pre-images.

use std::{fmt, sync::Arc};

use crate::{
    future::BoxFuture,
    ledger_error::{LedgerError, LedgerErrorKind},
};

/// Identifies an artifact by the hash and length of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId {
    /// BLAKE3 of the bytes.
    pub hash: [u8; 32],
    /// How many bytes.
    pub bytes: u64,
}

impl ArtifactId {
    /// The hash in hexadecimal.
    pub fn hex(&self) -> String {
        use fmt::Write as _;
        self.hash
            .iter()
            .fold(String::with_capacity(64), |mut hex, byte| {
                // Writing to a `String` cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            })
    }

    /// Parses a hexadecimal hash.
    pub fn from_hex(hex: &str, bytes: u64) -> Option<Self> {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut hash = [0; 32];
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(Self { hash, bytes })
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.hex(), self.bytes)
    }
}

/// Keeps bytes by content hash.
pub trait ArtifactStore: Send + Sync {
    /// Starts a new artifact. Dropping the writer without finishing leaves nothing behind.
    fn create(&self) -> BoxFuture<'_, Result<Box<dyn WriteArtifact>, LedgerError>>;

    /// Opens an artifact.
    fn open(&self, id: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, LedgerError>>;

    /// Keeps many contents and returns their ids in the same order. A store need not wait until
    /// each would survive a power cut; a loss is reported when the artifact is opened.
    fn keep_all(
        &self,
        contents: Vec<Vec<u8>>,
    ) -> BoxFuture<'_, Result<Vec<ArtifactId>, LedgerError>> {
        Box::pin(async move {
            let mut ids = Vec::with_capacity(contents.len());
            for content in contents {
                let mut writer = self.create().await?;
                writer.write(&content).await?;
                ids.push(writer.finish().await?);
            }
            Ok(ids)
        })
    }

    /// Which of these are kept, in the same order. Restarts the retention period of each that is.
    fn renew(&self, ids: Vec<ArtifactId>) -> BoxFuture<'_, Result<Vec<bool>, LedgerError>> {
        Box::pin(async move {
            let mut here = Vec::with_capacity(ids.len());
            for id in ids {
                match self.open(id).await {
                    Ok(_) => here.push(true),
                    Err(error) => match error.kind() {
                        LedgerErrorKind::NotFound | LedgerErrorKind::Corrupt => here.push(false),
                        _ => return Err(error),
                    },
                }
            }
            Ok(here)
        })
    }
}

/// An artifact being written.
pub trait WriteArtifact: Send {
    /// Adds bytes.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), LedgerError>>;

    /// Makes the artifact durable and names it.
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<ArtifactId, LedgerError>>;
}

/// An open artifact.
pub trait ReadArtifact: Send + Sync {
    /// Its hash and size.
    fn id(&self) -> ArtifactId;

    /// Up to `len` bytes at an offset; fewer bytes mean the end.
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Vec<u8>, LedgerError>>;
}
