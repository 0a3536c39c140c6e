//! The program that sets up sandboxes, as a file that no command can replace.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    bubblewrap,
    helper_flag::RUNNING,
    orphans::BaseDirectories,
    own_copy::{CopyError, HelperCopy},
};

/// A program that is a helper, and the copy it is started from.
#[derive(Debug, Clone)]
pub(crate) struct HelperProgram {
    source: PathBuf,
    copy: Option<Arc<HelperCopy>>,
}

impl HelperProgram {
    /// A program that is started from where it is.
    pub(crate) fn as_it_is(source: PathBuf) -> Self {
        Self { source, copy: None }
    }

    /// The program at a path without symlinks, as a file that no command can replace: itself, if only
    /// root can, and otherwise a copy of what is there now.
    pub(crate) fn at(source: PathBuf, bases: &BaseDirectories) -> Result<Self, CopyError> {
        if only_root_replaces(&source) {
            return Ok(Self { source, copy: None });
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&source, flags, Mode::empty()).map_err(io::Error::from)?;
        let opened = File::from(opened);
        // A directory on the way may have become a link meanwhile.
        let link = format!("/proc/self/fd/{}", opened.as_raw_fd());
        if !opened.metadata()?.is_file() || std::fs::read_link(link)? != source {
            return Err(CopyError::Io(io::ErrorKind::InvalidInput.into()));
        }
        let copy = Some(HelperCopy::of(&opened, &source, bases)?);
        Ok(Self { source, copy })
    }

    /// What is started.
    pub(crate) fn path(&self) -> &Path {
        let copy = self.copy.as_ref();
        copy.map_or(&self.source, |copy| copy.path())
    }

    /// Whether that is a copy.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Where it was found.
    pub(crate) fn source(&self) -> &Path {
        &self.source
    }

    /// Whether what is started answers as a helper. A copy is asked once.
    pub(crate) fn answers(&self, ask: impl FnOnce(&Path) -> bool) -> bool {
        match &self.copy {
            Some(copy) => copy.answers(ask),
            None => ask(&self.source),
        }
    }
}

/// Whether no command of any workspace can replace a program, because only root can and Haft is not
/// root.
fn only_root_replaces(program: &Path) -> bool {
    !rustix::process::geteuid().is_root() && bubblewrap::is_roots_own(program)
}

/// The file of the program that is running, if only root can replace it and has not done so. Commands
/// of no workspace can, because Haft is not root then.
pub(crate) fn installed_by_root() -> Option<PathBuf> {
    static INSTALLED: OnceLock<Option<(PathBuf, FileIdentity)>> = OnceLock::new();
    let found = INSTALLED.get_or_init(|| {
        let path = std::env::current_exe().ok()?;
        let running = identity(Path::new(RUNNING))?;
        only_root_replaces(&path).then_some((path, running))
    });
    // An upgrade leaves another program there, which may read differently what it is told.
    let (path, running) = found.as_ref()?;
    (identity(path)? == *running).then(|| path.clone())
}

/// The device and inode of a file.
type FileIdentity = (u64, u64);

fn identity(path: &Path) -> Option<FileIdentity> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
