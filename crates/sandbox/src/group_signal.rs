//! Signals a process group from outside its sandbox, through a descriptor of its process, so that
//! no other group can be hit.
#![expect(
    unsafe_code,
    reason = "flags of pidfd_send_signal are only available from libc"
)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::{io::Errno, process::Signal};

/// Signals a process and everything in its group. Fails with `EINVAL` on a kernel before 6.9.
pub(crate) fn signal_group(process: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
    /// `PIDFD_SIGNAL_PROCESS_GROUP`
    const GROUP: libc::c_uint = 1 << 2;
    // SAFETY: without a `siginfo` the call touches no memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal.as_raw(),
            std::ptr::null::<libc::siginfo_t>(),
            GROUP,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let raw = std::io::Error::last_os_error().raw_os_error();
    Err(raw.map_or(Errno::IO, Errno::from_raw_os_error))
}
