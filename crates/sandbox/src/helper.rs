//! The program that sets up sandboxes from inside, and how it is invoked.
//!
//! `helper_modes.rs` has what it does then, `find_helper.rs` where it is looked for when the running
//! program is none. A person must not reach it from a command line by accident, hence the odd first
//! argument.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::{Mode, OFlags};

use crate::{
    bubblewrap,
    detect::MissingFacility,
    find_helper,
    orphans::BaseDirectories,
    own_copy::{CopyError, HelperCopy},
    process::ProcessOptions,
};

/// The program that runs helper modes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Helper {
    /// This program, if it calls `helper::exit_if_asked` or `helper::run_if_asked` first in `main`.
    /// Otherwise one that is installed: what the variable `HAFT_HELPER` names, `haft-helper` beside
    /// this program, or `haft-helper` or `haft` on `PATH`, if it is of the same version.
    #[default]
    CurrentExecutable,
    /// Another program that calls one of them.
    Path(PathBuf),
}

/// The first argument that asks for a helper mode.
pub const FLAG: &str = "__haft-helper";

/// The variable that names a helper; empty for none.
pub(crate) const VARIABLE: &str = "HAFT_HELPER";

/// The program that is running, whatever became of its file.
pub(crate) const RUNNING: &str = "/proc/self/exe";

/// Whether this process itself answers as a helper.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Notes that this process answers as a helper.
pub(crate) fn note_that_it_answers() {
    ANSWERS.store(true, Ordering::Relaxed);
}

impl Helper {
    /// The path of the program, if there is one that answers.
    pub fn locate(&self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path.clone()),
            Self::CurrentExecutable if self.is_this_program() => std::env::current_exe().ok(),
            Self::CurrentExecutable => {
                let temporary = ProcessOptions::default().temporary;
                let bases = BaseDirectories::new(None, Path::new(&temporary));
                find_helper::find(&|_| true, &bases).map(|found| found.source)
            }
        }
    }

    /// Whether it is the program that is running.
    pub fn is_this_program(&self) -> bool {
        *self == Self::CurrentExecutable && ANSWERS.load(Ordering::Relaxed)
    }

    /// The program for the sandboxes of a workspace: never a file that a command there could replace,
    /// and one that no command can replace if it was found. The running program is named by the
    /// kernel's link to it, whatever became of its file.
    pub(crate) fn for_workspace(
        &self,
        root: &Path,
        bases: &BaseDirectories,
    ) -> Result<HelperProgram, MissingFacility> {
        match self {
            Self::Path(path) => {
                let source = std::fs::canonicalize(path).map_err(|_| MissingFacility::Helper)?;
                if path.starts_with(root) || source.starts_with(root) {
                    return Err(MissingFacility::HelperInWorkspace);
                }
                HelperProgram::at(source, bases).map_err(|error| match error {
                    CopyError::NoPlace => MissingFacility::PlaceForHelper,
                    CopyError::Io(_) => MissingFacility::Helper,
                })
            }
            Self::CurrentExecutable if self.is_this_program() => Ok(HelperProgram {
                source: RUNNING.into(),
                copy: None,
            }),
            Self::CurrentExecutable => {
                let found = find_helper::find(&|path| !path.starts_with(root), bases);
                found.ok_or(MissingFacility::Helper)
            }
        }
    }
}

/// A program that is a helper, and the copy it is started from.
#[derive(Debug, Clone)]
pub(crate) struct HelperProgram {
    source: PathBuf,
    copy: Option<Arc<HelperCopy>>,
}

impl HelperProgram {
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
