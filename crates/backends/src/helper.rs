//! The helper modes of a program: hidden modes that set up sandboxes from inside and serve
//! workspaces to other machines.
//!
//! A program that embeds Haft calls [`run_if_asked`] first in `main`, before it starts threads or
//! reads its arguments; or it ships the `haft-helper` program and names it. The modes for sandboxes
//! are in `haft-sandbox`.

use std::process::ExitCode;

pub use haft_sandbox::helper::Helper;

use crate::{container::install, remote::supervise};

/// Runs a helper mode if the arguments ask for one, and returns its exit code. `None` means the
/// program continues as usual. Call it first in `main`.
pub fn run_if_asked() -> Option<ExitCode> {
    haft_sandbox::helper_modes::run_if_asked(|mode| match mode {
        supervise::SERVE => Some(supervise::supervise()),
        supervise::SERVE_STREAM => Some(supervise::serve_stream()),
        install::INSTALL => Some(install::install()),
        _ => None,
    })
}
