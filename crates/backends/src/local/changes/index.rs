//! Remembers which content of which file is kept, between commands and between processes: one file
//! for each workspace in a private directory of Haft's, replaced as a whole.
//!
//! It only saves reading files again. Every entry is compared with the file itself, so an index
//! that is old, damaged, missing or from another process makes a scan slower and never wrong.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_sandbox::private_directory;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat},
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

use super::{format, picture::WorkspacePicture};

/// The directory below Haft's own.
const DIRECTORY: &str = "changes";

/// The most bytes of an index that are read.
const MAX_BYTES: u64 = 512 << 20;

/// Which content of which file is kept, for one workspace.
#[derive(Debug)]
pub(super) struct Index {
    place: PathBuf,
    name: String,
    last: Mutex<Option<Arc<WorkspacePicture>>>,
}

impl Index {
    pub(super) fn new(place: &Path, root: &str) -> Self {
        Self {
            place: place.to_owned(),
            name: blake3::hash(root.as_bytes()).to_hex().to_string(),
            last: Mutex::default(),
        }
    }

    /// The remembered picture; empty if there is none, or it cannot be read.
    pub(super) fn load(&self) -> Arc<WorkspacePicture> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = last.get_or_insert_with(|| Arc::new(self.read().unwrap_or_default()));
        Arc::clone(loaded)
    }

    /// Remembers a picture. One that cannot be written is remembered only by this process.
    pub(super) fn save(&self, picture: Arc<WorkspacePicture>) {
        if let Err(error) = self.write(&format::encode(&picture)) {
            tracing::warn!(%error, "what was kept of the workspace could not be remembered");
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(picture);
    }

    /// Starts over, after remembered content turned out not to be kept.
    pub(super) fn forget(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Ok(directory) = self.directory() {
            // If it cannot be removed, the next check finds the same.
            let _ = unlinkat(directory, self.name.as_str(), AtFlags::empty());
        }
    }

    fn directory(&self) -> Result<OwnedFd, Errno> {
        match mkdirat(CWD, &self.place, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        private_directory::open(CWD, &self.place.join(DIRECTORY))
    }

    fn read(&self) -> Option<WorkspacePicture> {
        let directory = self.directory().ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(directory, self.name.as_str(), flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let picture = format::decode(&bytes);
        if picture.is_none() {
            tracing::info!("the kept state of the workspace is read again");
        }
        picture
    }

    /// Writes a temporary file and renames it, so that another process reads the old index or the
    /// new one. Not synced: one that a power cut destroys is not missed.
    fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let directory = self.directory()?;
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let aside = format!("{}.{:016x}", self.name, u64::from_ne_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&directory, aside.as_str(), flags, mode)?;
        let written = File::from(file).write_all(bytes).and_then(|()| {
            renameat(&directory, aside.as_str(), &directory, self.name.as_str())?;
            Ok(())
        });
        if written.is_err() {
            let _ = unlinkat(&directory, aside.as_str(), AtFlags::empty());
        }
        written
    }
}
