//! Translates errors of the operating system into those of the contract. Messages never contain a
//! path of the machine: a model sees them and must not learn paths outside the workspace.

use haft_contract::{ErrorKind, WorkPath, ops::OpsError};
use rustix::io::Errno;

/// The error for an errno that occurred at a path.
pub fn on_path(errno: Errno, path: &WorkPath) -> OpsError {
    error(errno).on(path)
}

/// The error for an errno that concerns no path.
pub fn error(errno: Errno) -> OpsError {
    let (kind, message) = match errno {
        Errno::XDEV => (ErrorKind::OutsideWorkspace, "it leads out of the workspace"),
        Errno::LOOP => (
            ErrorKind::Symlink,
            "it crosses a symlink that may not be followed",
        ),
        Errno::NAMETOOLONG => (ErrorKind::InvalidPath, "the name is too long"),
        Errno::ILSEQ => (ErrorKind::InvalidPath, "the file system refuses this name"),
        Errno::NOENT => (ErrorKind::NotFound, "there is nothing there"),
        Errno::EXIST => (ErrorKind::AlreadyExists, "there is something there already"),
        Errno::NOTEMPTY => (ErrorKind::AlreadyExists, "the directory is not empty"),
        Errno::NOTDIR => (ErrorKind::NotDirectory, "it is not a directory"),
        Errno::ISDIR => (ErrorKind::NotRegularFile, "it is a directory"),
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => (
            ErrorKind::NotRegularFile,
            "it is a device, FIFO or socket, not a regular file",
        ),
        Errno::ACCESS | Errno::PERM => (
            ErrorKind::AccessDenied,
            "the operating system denies access",
        ),
        Errno::ROFS => (ErrorKind::AccessDenied, "the file system is read-only"),
        Errno::TXTBSY => (
            ErrorKind::AccessDenied,
            "it is a program that is running right now",
        ),
        Errno::NOSPC => (ErrorKind::LimitExceeded, "no space is left on the disk"),
        Errno::DQUOT => (ErrorKind::LimitExceeded, "the disk quota is used up"),
        Errno::FBIG => (
            ErrorKind::LimitExceeded,
            "the file would grow beyond the size limit",
        ),
        Errno::MFILE | Errno::NFILE => (
            ErrorKind::LimitExceeded,
            "too many files are open right now; try again",
        ),
        Errno::NOMEM => (
            ErrorKind::LimitExceeded,
            "the operating system is out of memory",
        ),
        Errno::TOOBIG => (
            ErrorKind::LimitExceeded,
            "the command line and its environment are too long",
        ),
        Errno::AGAIN => (
            ErrorKind::Unavailable,
            "it is being changed right now; try again",
        ),
        Errno::NOEXEC => (
            ErrorKind::AccessDenied,
            "it is not a program this machine can run",
        ),
        other => {
            return OpsError::new(
                ErrorKind::Io,
                format!("the operating system reports `{other}`"),
            );
        }
    };
    OpsError::new(kind, message)
}
