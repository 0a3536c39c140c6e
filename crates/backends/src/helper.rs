//! The helper modes of a program: hidden modes that set up sandboxes from inside and serve
//! workspaces to other machines.
//!
//! A program that embeds Haft calls [`exit_if_asked`] first in `main`, before it starts threads or
//! reads its arguments. Without that an installed helper is used; see [`Helper::CurrentExecutable`].
//! The modes for sandboxes are in `haft-sandbox`.

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

/// Runs a helper mode if the arguments ask for one, and ends the process; otherwise does nothing. The
/// one line that a program which runs commands in sandboxes needs, first in `main`. A `main` under
/// `#[tokio::main]` comes too late, because the runtime has started its threads.
///
/// ```no_run
/// haft_backends::helper::exit_if_asked();
/// // From here on it is the program as usual.
/// ```
pub fn exit_if_asked() {
    if let Some(ended) = run_if_asked() {
        let number = (0..=u8::MAX).find(|number| ExitCode::from(*number) == ended);
        std::process::exit(number.unwrap_or(u8::MAX).into());
    }
}
