//! What every call needs of this machine: a kernel that confines paths and stops processes by handle,
//! and a shell.

use std::path::Path;

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    process::PidfdFlags,
};

use super::check::Check;

/// Checks the kernel and the shell.
pub fn checks() -> Vec<Check> {
    vec![kernel_paths(), kernel_processes(), shell()]
}

fn kernel_paths() -> Check {
    const NAME: &str = "kernel: openat2";
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(CWD, ".", flags, Mode::empty(), resolve) {
        Ok(_) => Check::ok(
            NAME,
            "paths are confined by the kernel (RESOLVE_BENEATH, NO_MAGICLINKS, NO_SYMLINKS)",
        ),
        Err(Errno::NOSYS) => {
            Check::fail(NAME, "this kernel has no openat2", "use Linux 5.6 or newer")
        }
        Err(error) => Check::fail(
            NAME,
            format!("openat2 is refused: {error}"),
            "allow openat2 in the container's seccomp profile",
        ),
    }
}

fn kernel_processes() -> Check {
    const NAME: &str = "kernel: pidfd";
    match rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => Check::ok(NAME, "processes are stopped by handle, never by number"),
        Err(error) => Check::fail(
            NAME,
            format!("pidfd_open is refused: {error}"),
            "use Linux 5.3 or newer and allow pidfd_open",
        ),
    }
}

fn shell() -> Check {
    let found = ["/bin/bash", "/usr/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    match found {
        Some(path) => Check::ok("bash", path),
        None => Check::warn(
            "bash",
            "there is no bash, so the tool `bash` cannot run",
            "install bash",
        ),
    }
}
