//! Ends the plain children of a Haft that died without being able to: a small process beside it that
//! does nothing but wait for its end.
//!
//! Haft holds the other end of a pipe. However Haft ends, the kernel closes it; the warden then ends
//! everything that carries Haft's mark, and itself. It has a session of its own, so that what is
//! sent to Haft's group does not reach it. A program that does not answer as a helper has none.

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
    helper,
    owner::Owner,
    spawn::{self, Launch},
};

/// The mode of the helper.
pub(crate) const MODE: &str = "warden";

/// What keeps the warden waiting, for as long as this process lives.
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
            tracing::warn!(%errno, "nobody will end plain children if this process is killed");
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
            text(helper::FLAG)?,
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

/// The warden itself: waits for the end of its Haft, then ends what that left.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let Some(owner) = arguments.first().and_then(|owner| Owner::parse(owner)) else {
        return ExitCode::from(2);
    };
    // Nothing is ever written, so this returns at the end.
    let mut nothing = [0; 1];
    let mut lifeline = std::io::stdin().lock();
    while matches!(lifeline.read(&mut nothing), Ok(1)) {}
    orphans::end(OrphanOwner::Of(owner));
    ExitCode::SUCCESS
}
