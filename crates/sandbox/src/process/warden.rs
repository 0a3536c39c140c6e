//! Ends the plain children of a Haft that died without doing so: a small companion process that
//! only waits for Haft to end.
//!
//! Haft holds the other end of a pipe. However Haft ends, the kernel closes it; the warden then
//! kills everything that carries Haft's mark, and exits. It has its own session, so that a signal
//! to Haft's group does not reach it. A program that does not answer as a helper has no warden.

use std::{
    ffi::CString,
    io::Read as _,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    process::ExitCode,
    sync::OnceLock,
};

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::orphans::{self, OrphanOwner};
use crate::{
    helper_flag,
    owner::Owner,
    spawn::{self, Launch},
};

/// Its helper mode.
pub(crate) const MODE: &str = "warden";

/// Keeps the warden waiting for as long as this process lives.
struct Lifeline {
    _ours: OwnedFd,
    _pidfd: OwnedFd,
}

/// Starts the warden of this process, once. Without it the next Haft ends what this one leaves.
pub(super) fn ensure(program: Option<&Path>) {
    static WARDEN: OnceLock<Option<Lifeline>> = OnceLock::new();
    let Some(program) = program else {
        return;
    };
    WARDEN.get_or_init(|| match start(program) {
        Ok(lifeline) => Some(lifeline),
        Err(errno) => {
            tracing::warn!(%errno, "no warden: children on the host will outlive this process if it is killed");
            None
        }
    });
}

fn start(program: &Path) -> Result<Lifeline, Errno> {
    let owner = Owner::this_process().map_err(|_| Errno::SRCH)?;
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let root = open(
        "/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let text = |text: &str| CString::new(text).map_err(|_| Errno::INVAL);
    let program = CString::new(program.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let started = spawn::launch(&Launch {
        program: &program,
        arguments: &[
            program.clone(),
            text(helper_flag::FLAG)?,
            text(MODE)?,
            text(&owner.to_string())?,
        ],
        environment: &[],
        directory: root.as_fd(),
        descriptors: &[theirs.as_fd(), nothing.as_fd(), nothing.as_fd()],
        terminal: None,
    })?;
    Ok(Lifeline {
        _ours: ours,
        _pidfd: started.pidfd,
    })
}

/// The warden itself: waits for its Haft to end, then kills what that left.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(owner) = arguments.first().and_then(|owner| Owner::parse(owner)) else {
        return ExitCode::from(2);
    };
    // Nothing is ever written, so this returns only at end of file.
    let mut nothing = [0; 1];
    let mut lifeline = std::io::stdin().lock();
    while matches!(lifeline.read(&mut nothing), Ok(1)) {}
    orphans::end(OrphanOwner::Of(owner));
    ExitCode::SUCCESS
}
