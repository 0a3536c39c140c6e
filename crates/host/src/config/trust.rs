//! Which files the operator has read and pinned. A file that has changed since it was trusted is
//! not read; the bytes that were hashed are the bytes that are used.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{error::HostError, state::private};

/// The largest trust store that is read.
const MAX_STORE_BYTES: u64 = 16 * 1024 * 1024;

/// The file in the data directory that holds the pins.
const STORE: &str = "trust.json";

/// The pins as stored. Only this file reads and writes them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTrust {
    v: u32,
    /// SHA-256 in hexadecimal, by absolute path.
    files: BTreeMap<PathBuf, String>,
}

/// The pins of one data directory.
#[derive(Debug)]
pub struct TrustStore {
    path: PathBuf,
    stored: StoredTrust,
}

/// Whether a file is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It has not changed since it was trusted.
    Trusted,
    /// It was trusted and has changed since.
    Changed,
    /// It was never trusted.
    Never,
}

impl TrustStore {
    /// Reads the pins of a data directory; empty if there is no store yet.
    pub fn open(data_dir: &Path) -> Result<Self, HostError> {
        let path = data_dir.join(STORE);
        let unusable = |why: String| {
            HostError::config(
                format!("the trust store `{}` cannot be used: {why}", path.display()),
                "make it and its directory yours alone (`chmod go-w`), or move it away and run \
                 `haft trust` again in your workspaces",
            )
        };
        let stored = match private::read_own(&path, MAX_STORE_BYTES) {
            Ok(None) => StoredTrust {
                v: 1,
                files: BTreeMap::new(),
            },
            Ok(Some(bytes)) => {
                serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))?
            }
            Err(error) => return Err(unusable(error.to_string())),
        };
        if stored.v != 1 {
            return Err(unusable(format!(
                "it has version {}, this program knows 1",
                stored.v
            )));
        }
        Ok(Self { path, stored })
    }

    /// Whether a file with this SHA-256 is trusted.
    pub fn of(&self, path: &Path, hash: [u8; 32]) -> Trust {
        match self.stored.files.get(path) {
            None => Trust::Never,
            Some(pinned) if *pinned == hex(hash) => Trust::Trusted,
            Some(_) => Trust::Changed,
        }
    }

    /// Whether the file at this path was ever trusted.
    pub fn knows(&self, path: &Path) -> bool {
        self.stored.files.contains_key(path)
    }

    /// Everything that is pinned.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.stored
            .files
            .iter()
            .map(|(path, hash)| (path.as_path(), hash.as_str()))
    }

    /// Pins a file at this SHA-256.
    pub fn pin(&mut self, path: &Path, hash: [u8; 32]) {
        self.stored.files.insert(path.to_owned(), hex(hash));
    }

    /// Forgets a file and everything below it; returns whether there was anything.
    pub fn forget(&mut self, path: &Path) -> bool {
        let before = self.stored.files.len();
        self.stored
            .files
            .retain(|pinned, _| !pinned.starts_with(path));
        self.stored.files.len() != before
    }

    /// Writes the pins to disk.
    pub fn save(&self) -> Result<(), HostError> {
        let failed = |error: std::io::Error| {
            HostError::config(
                format!(
                    "the trust store `{}` cannot be written: {error}",
                    self.path.display()
                ),
                "check that the data directory is yours and has room",
            )
        };
        if let Some(directory) = self.path.parent() {
            private::make_directory(directory).map_err(failed)?;
        }
        // The store only holds strings, so serializing cannot fail.
        let text = serde_json::to_string_pretty(&self.stored).unwrap_or_default();
        private::replace(&self.path, text.as_bytes()).map_err(failed)
    }
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Bytes in hexadecimal.
pub fn hex(bytes: [u8; 32]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            // Writing to a `String` cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
