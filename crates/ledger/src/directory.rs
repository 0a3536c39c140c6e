//! The record's private directory, held open. Everything in it is created and opened relative to
//! the held directory, never through a symlink, readable by its owner alone.
//!
//! This is only the record's storage. Tools' files are never opened here; that is `backends`. A record
//! in memory has the same files without a directory (`memory_files.rs`).

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW},
    io::Errno,
    rand::GetRandomFlags,
};

use crate::memory_files::{MemoryFiles, MissingFile};

/// The size of the key that signs checkpoints.
pub(crate) const KEY_BYTES: usize = 32;

/// Why a directory cannot hold the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It is a symlink or something else that is not a directory.
    #[error("`{}` is not a directory of its own (a symlink is refused)", .0.display())]
    NotDirectory(PathBuf),
    /// Another user could change its contents.
    #[error("`{}` belongs to another user", .0.display())]
    OtherOwner(PathBuf),
    /// The signing key file is truncated.
    #[error("`{}` does not hold a key of 32 bytes", .0.display())]
    BadKey(PathBuf),
    /// The operating system returned an error.
    #[error("`{}` cannot be used", .path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
}

/// A directory that only this user can access, held open.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    path: PathBuf,
    held: HeldDirectory,
}

/// Where the files are.
#[derive(Debug)]
enum HeldDirectory {
    OnDisk(OwnedFd),
    InMemory(MemoryFiles),
}

impl PrivateDirectory {
    /// Opens a directory, creating it and its parents if missing.
    pub(crate) fn open(path: &Path) -> Result<Self, DirectoryError> {
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            // For this user alone, whatever the umask: anyone who can write there could substitute
            // another record.
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .map_err(|source| failed(parent, source))?;
        }
        Self::open_beneath(CWD, path, path.to_owned())
    }

    /// A directory of files in memory.
    pub(crate) fn in_memory(files: &MemoryFiles) -> Self {
        Self {
            path: PathBuf::from("memory"),
            held: HeldDirectory::InMemory(files.clone()),
        }
    }

    /// Opens a directory inside this one, creating it if missing.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<Self, DirectoryError> {
        let path = self.path.join(name);
        match &self.held {
            HeldDirectory::OnDisk(held) => Self::open_beneath(held, Path::new(name), path),
            HeldDirectory::InMemory(files) => Ok(Self {
                path,
                held: HeldDirectory::InMemory(files.beneath(name)),
            }),
        }
    }

    /// Opens a file next to this directory, named after it, creating it if missing.
    pub(crate) fn open_beside(&self, suffix: &str) -> Result<(File, PathBuf), DirectoryError> {
        let mut path = self.path.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        let opened = match &self.held {
            HeldDirectory::OnDisk(_) => {
                let flags = OFlags::RDWR
                    | OFlags::CREATE
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::CLOEXEC;
                let opened = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
                opened.map(File::from).map_err(io::Error::from)
            }
            HeldDirectory::InMemory(files) => files.open(suffix, MissingFile::Create),
        };
        match opened {
            Ok(file) => Ok((file, path)),
            Err(source) => Err(failed(&path, source)),
        }
    }

    fn open_beneath(
        parent: impl std::os::fd::AsFd,
        name: &Path,
        path: PathBuf,
    ) -> Result<Self, DirectoryError> {
        match rustix::fs::mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(&path, error.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = match rustix::fs::openat(&parent, name, flags, Mode::empty()) {
            Ok(held) => held,
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(DirectoryError::NotDirectory(path)),
            Err(error) => return Err(failed(&path, error.into())),
        };
        let stat = rustix::fs::fstat(&held).map_err(|error| failed(&path, error.into()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(DirectoryError::OtherOwner(path));
        }
        if stat.st_mode & 0o077 != 0 {
            rustix::fs::fchmod(&held, Mode::RWXU).map_err(|error| failed(&path, error.into()))?;
        }
        let held = HeldDirectory::OnDisk(held);
        Ok(Self { path, held })
    }

    /// The path, for display and for databases that open by path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file; fails if the name exists, even as a symlink.
    pub(crate) fn create_new(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        self.file(name, flags, MissingFile::CreateNew)
    }

    /// Opens a file for reading and writing, creating it if missing. Refuses a symlink.
    pub(crate) fn open_or_create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        self.file(name, flags, MissingFile::Create)
    }

    /// Opens a file for reading. Refuses a symlink.
    pub(crate) fn open_existing(&self, name: &str) -> io::Result<File> {
        self.file(name, OFlags::RDONLY | OFlags::CLOEXEC, MissingFile::Refuse)
    }

    fn file(&self, name: &str, flags: OFlags, missing: MissingFile) -> io::Result<File> {
        let held = match &self.held {
            HeldDirectory::OnDisk(held) => held,
            HeldDirectory::InMemory(files) => return files.open(name, missing),
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(held, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = rustix::fs::fstat(&opened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(File::from(opened))
    }

    /// Moves a file into another private directory, replacing any file with that name.
    pub(crate) fn rename(&self, name: &str, to: &Self, new_name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(
            self.on_disk()?,
            name,
            to.on_disk()?,
            new_name,
        )?)
    }

    /// Whether there is a file of this size; if so, its age is reset as if written now.
    pub(crate) fn renew(&self, name: &str, bytes: u64) -> io::Result<bool> {
        let stat = match rustix::fs::statat(self.on_disk()?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || u64::try_from(stat.st_size) != Ok(bytes) {
            return Ok(false);
        }
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        match rustix::fs::utimensat(self.on_disk()?, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file. A missing file is not an error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let held = match &self.held {
            HeldDirectory::OnDisk(held) => held,
            HeldDirectory::InMemory(files) => {
                files.remove(name);
                return Ok(());
            }
        };
        match rustix::fs::unlinkat(held, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The file names in this directory.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let held = match &self.held {
            HeldDirectory::OnDisk(held) => held,
            HeldDirectory::InMemory(files) => return Ok(files.names()),
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(held)? {
            let entry = entry?;
            // All our files have plain names; anything else is left alone.
            if let Ok(name) = entry.file_name().to_str()
                && !name.starts_with('.')
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Syncs the directory so that its entries survive a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match &self.held {
            HeldDirectory::OnDisk(held) => Ok(rustix::fs::fsync(held)?),
            HeldDirectory::InMemory(_) => Ok(()),
        }
    }

    /// The directory's descriptor, for what only files on a disk are used for.
    fn on_disk(&self) -> io::Result<&OwnedFd> {
        match &self.held {
            HeldDirectory::OnDisk(held) => Ok(held),
            HeldDirectory::InMemory(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The key that signs checkpoints, created on first use.
    pub(crate) fn signing_key(&self) -> Result<[u8; KEY_BYTES], DirectoryError> {
        const NAME: &str = "checkpoint.key";
        let path = self.path.join(NAME);
        if let HeldDirectory::InMemory(files) = &self.held {
            return files.signing_key().map_err(|source| failed(&path, source));
        }
        if let Some(key) = self.read_key(NAME)? {
            return Ok(key);
        }
        // Written to a temporary file and linked into place, so that another process never reads a
        // partial key and two that start at once end up with the same one.
        let write_aside = || -> io::Result<()> {
            let aside = format!("{NAME}.{}", random_name()?);
            let mut key = [0; KEY_BYTES];
            fill_random(&mut key)?;
            let mut file = self.create_new(&aside)?;
            file.write_all(&key)?;
            file.sync_all()?;
            let held = self.on_disk()?;
            let linked = rustix::fs::linkat(held, &*aside, held, NAME, AtFlags::empty());
            self.remove(&aside)?;
            match linked {
                Ok(()) | Err(Errno::EXIST) => self.sync(),
                Err(error) => Err(error.into()),
            }
        };
        write_aside().map_err(|source| failed(&path, source))?;
        self.read_key(NAME)?.ok_or(DirectoryError::BadKey(path))
    }

    fn read_key(&self, name: &str) -> Result<Option<[u8; KEY_BYTES]>, DirectoryError> {
        let path = self.path.join(name);
        let file = match self.open_existing(name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed(&path, source)),
        };
        let mut bytes = Vec::with_capacity(KEY_BYTES);
        file.take(KEY_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| failed(&path, source))?;
        match <[u8; KEY_BYTES]>::try_from(bytes) {
            Ok(key) => Ok(Some(key)),
            Err(_) => Err(DirectoryError::BadKey(path)),
        }
    }
}

/// An unguessable name.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    Ok(uuid::Uuid::from_bytes(bytes).simple().to_string())
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    // Once the pool is ready, 32 bytes or fewer are always returned in full.
    let filled = rustix::rand::getrandom(&mut *bytes, GetRandomFlags::empty())?;
    if filled == bytes.len() {
        Ok(())
    } else {
        Err(io::Error::other("the system gave too little randomness"))
    }
}

fn failed(path: &Path, source: io::Error) -> DirectoryError {
    DirectoryError::Io {
        path: path.to_owned(),
        source,
    }
}
