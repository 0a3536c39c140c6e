//! The program that sets up sandboxes from inside, and how it is invoked.
//!
//! `helper_modes.rs` has what it does then. A person must not reach it from a command line by
//! accident, hence the odd first argument.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

/// The program that runs helper modes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Helper {
    /// This program; it must call `helper::run_if_asked` in `main`.
    #[default]
    CurrentExecutable,
    /// Another program that calls it.
    Path(PathBuf),
}

/// The first argument that asks for a helper mode.
pub const FLAG: &str = "__haft-helper";

/// Whether this process itself answers as a helper.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// Notes that this process answers as a helper.
pub(crate) fn note_that_it_answers() {
    ANSWERS.store(true, Ordering::Relaxed);
}

impl Helper {
    /// The path of the program, if it answers.
    pub fn locate(&self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path.clone()),
            Self::CurrentExecutable => ANSWERS
                .load(Ordering::Relaxed)
                .then(|| std::env::current_exe().ok())
                .flatten(),
        }
    }
}
