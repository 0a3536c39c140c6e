//! The program that sets up sandboxes from inside, and how it is invoked.
//!
//! `helper_modes.rs` has what it does then, `find_helper.rs` where it is looked for when the running
//! program is none. A person must not reach it from a command line by accident, hence the odd first
//! argument.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{bubblewrap, detect::MissingFacility, find_helper};

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
            Self::CurrentExecutable => find_helper::find(&|_| true),
        }
    }

    /// Whether it is the program that is running.
    pub fn is_this_program(&self) -> bool {
        *self == Self::CurrentExecutable && ANSWERS.load(Ordering::Relaxed)
    }

    /// The program for the sandboxes of a workspace: never a file that a command there could replace.
    /// The running program is named by the kernel's link to it, whatever became of its file.
    pub(crate) fn for_workspace(&self, root: &Path) -> Result<PathBuf, MissingFacility> {
        match self {
            Self::Path(path) if path.starts_with(root) => Err(MissingFacility::HelperInWorkspace),
            Self::Path(path) => Ok(path.clone()),
            Self::CurrentExecutable if self.is_this_program() => Ok(RUNNING.into()),
            Self::CurrentExecutable => {
                let found = find_helper::find(&|path| !path.starts_with(root));
                found.ok_or(MissingFacility::Helper)
            }
        }
    }
}

/// The file of the program that is running, if only root can replace it and has not done so. Commands
/// of no workspace can, because Haft is not root then.
pub(crate) fn installed_by_root() -> Option<PathBuf> {
    static INSTALLED: OnceLock<Option<(PathBuf, FileIdentity)>> = OnceLock::new();
    let found = INSTALLED.get_or_init(|| {
        let path = std::env::current_exe().ok()?;
        let running = identity(Path::new(RUNNING))?;
        let only_root = !rustix::process::geteuid().is_root() && bubblewrap::is_roots_own(&path);
        only_root.then_some((path, running))
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
