//! The program that sets up sandboxes from inside, and how it is invoked.
//!
//! `helper_modes.rs` has what it does then, `find_helper.rs` where it is looked for when the running
//! program is none. A person must not reach it from a command line by accident, hence the odd first
//! argument.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{detect::MissingFacility, find_helper};

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

/// Whether this program's file lies in a workspace that was opened, so that a command there might
/// replace it.
static IN_A_WORKSPACE: AtomicBool = AtomicBool::new(false);

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
    pub(crate) fn for_workspace(&self, root: &Path) -> Result<PathBuf, MissingFacility> {
        match self {
            Self::Path(path) if path.starts_with(root) => Err(MissingFacility::HelperInWorkspace),
            Self::Path(path) => Ok(path.clone()),
            Self::CurrentExecutable if self.is_this_program() => {
                let path = std::env::current_exe().map_err(|_| MissingFacility::Helper)?;
                if path.starts_with(root) {
                    IN_A_WORKSPACE.store(true, Ordering::Relaxed);
                    return Ok(RUNNING.into());
                }
                Ok(path)
            }
            Self::CurrentExecutable => {
                let found = find_helper::find(&|path| !path.starts_with(root));
                found.ok_or(MissingFacility::Helper)
            }
        }
    }
}

/// Whether a helper that was found must be started from a copy: it is the program that is running,
/// and a command may replace its file.
pub(crate) fn needs_copy(helper: &Path) -> bool {
    let is_running = || std::env::current_exe().is_ok_and(|path| path == helper);
    helper == Path::new(RUNNING) || (IN_A_WORKSPACE.load(Ordering::Relaxed) && is_running())
}
