//! Which files the operator has read and pinned. A file that has changed since it was trusted is
//! not read; the bytes that were hashed are the bytes that are used.
//!
//! The text of a configuration file is kept as it was trusted, in a file of its own, so that a
//! person can be told what changed since. It counts only while it has the pinned hash.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{error::HostError, state::private};

/// The largest trust store that is read.
const MAX_STORE_BYTES: u64 = 16 * 1024 * 1024;

/// The file in the data directory that holds the pins.
const STORE: &str = "trust.json";

/// The directory beside it for texts as they were trusted.
const TEXTS: &str = "trusted";

/// The longest text that is kept.
const MAX_TEXT_BYTES: u64 = 1024 * 1024;

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
    /// Texts to write or, if there is none, to remove when the pins are saved.
    texts: BTreeMap<PathBuf, Option<String>>,
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

/// What differs whenever the pins of a data directory were written, since they are written whole
/// into a file of its own; `None` if there are none.
pub(crate) fn stamp(data_dir: &Path) -> Option<(u64, i64, i64, u64)> {
    let there = fs::symlink_metadata(data_dir.join(STORE)).ok()?;
    let (seconds, nanoseconds) = (there.mtime(), there.mtime_nsec());
    Some((there.ino(), seconds, nanoseconds, there.size()))
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
        Ok(Self {
            path,
            stored,
            texts: BTreeMap::new(),
        })
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

    /// Pins a configuration file at this text, which is kept to say later what changed.
    pub fn pin_text(&mut self, path: &Path, text: &str) {
        self.pin(path, sha256(text.as_bytes()));
        let fits = u64::try_from(text.len()).is_ok_and(|bytes| bytes <= MAX_TEXT_BYTES);
        let kept = fits.then(|| text.to_owned());
        self.texts.insert(path.to_owned(), kept);
    }

    /// The text of a file as it was trusted; `None` if it was not kept, or is not that text.
    pub fn trusted_text(&self, path: &Path) -> Option<String> {
        let pinned = self.stored.files.get(path)?;
        let bytes = private::read_own(&self.text_file(path), MAX_TEXT_BYTES).ok()??;
        let text = String::from_utf8(bytes).ok()?;
        (hex(sha256(text.as_bytes())) == *pinned).then_some(text)
    }

    /// Forgets a file and everything below it; returns whether there was anything.
    pub fn forget(&mut self, path: &Path) -> bool {
        let before = self.stored.files.len();
        let texts = &mut self.texts;
        self.stored.files.retain(|pinned, _| {
            let goes = pinned.starts_with(path);
            if goes {
                texts.insert(pinned.clone(), None);
            }
            !goes
        });
        self.stored.files.len() != before
    }

    /// Writes the pins to disk.
    pub fn save(&self) -> Result<(), HostError> {
        let failed = |error: io::Error| {
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
        // Texts first: one without its pin is ignored.
        self.save_texts().map_err(failed)?;
        // The store only holds strings, so serializing cannot fail.
        let text = serde_json::to_string_pretty(&self.stored).unwrap_or_default();
        private::replace(&self.path, text.as_bytes()).map_err(failed)
    }

    fn save_texts(&self) -> io::Result<()> {
        for (path, text) in &self.texts {
            let file = self.text_file(path);
            match text {
                Some(text) => {
                    file.parent().map_or(Ok(()), private::make_directory)?;
                    private::replace(&file, text.as_bytes())?;
                }
                None => match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                },
            }
        }
        Ok(())
    }

    /// Where the text of a file is kept: named by its path, so that there is one for each.
    fn text_file(&self, path: &Path) -> PathBuf {
        let name = hex(sha256(path.as_os_str().as_bytes()));
        self.path.with_file_name(TEXTS).join(format!("{name}.toml"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_counts_only_while_it_has_the_pinned_hash() {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new("/work/haft.toml");
        let open = || TrustStore::open(folder.path()).unwrap();
        let mut store = open();
        store.pin_text(file, "a = 1\n");
        store.save().unwrap();
        assert_eq!(open().trusted_text(file).unwrap(), "a = 1\n");
        fs::write(open().text_file(file), "a = 2\n").unwrap();
        assert_eq!(open().trusted_text(file), None);
        let mut store = open();
        store.pin_text(file, "a = 3\n");
        store.save().unwrap();
        store.pin(file, sha256(b"a = 4\n"));
        store.save().unwrap();
        assert_eq!(open().trusted_text(file), None, "pinned without its text");
        let mut store = open();
        store.pin_text(file, &"#".repeat(2 * 1024 * 1024));
        store.save().unwrap();
        assert_eq!(open().trusted_text(file), None, "too long to keep");
    }

    #[test]
    fn what_is_forgotten_leaves_no_text_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new("/work/haft.toml");
        let mut store = TrustStore::open(folder.path()).unwrap();
        store.pin_text(file, "a = 1\n");
        store.save().unwrap();
        let kept = store.text_file(file);
        assert!(kept.exists());
        assert!(store.forget(Path::new("/work")));
        store.save().unwrap();
        assert!(!kept.exists());
    }
}
