//! The program that sets up sandboxes from inside, and how it is invoked.
//!
//! `helper_modes.rs` has what it does then, `find_helper.rs` where it is looked for when the running
//! program is none. A person must not reach it from a command line by accident, hence the odd first
//! argument.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

pub use crate::helper_flag::FLAG;
use crate::{
    find_helper,
    helper_flag::RUNNING,
    helper_program::HelperProgram,
    missing_facility::MissingFacility,
    orphans::{BaseDirectories, TEMPORARY},
    own_copy::CopyError,
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
                let bases = BaseDirectories::new(None, Path::new(TEMPORARY));
                find_helper::find(&|_| true, &bases).map(|found| found.source().to_owned())
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
            Self::CurrentExecutable if self.is_this_program() => {
                Ok(HelperProgram::as_it_is(RUNNING.into()))
            }
            Self::CurrentExecutable => {
                let found = find_helper::find(&|path| !path.starts_with(root), bases);
                found.ok_or(MissingFacility::Helper)
            }
        }
    }
}
