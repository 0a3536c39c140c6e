//! Installs a system call filter and answers the calls it hands over. Nothing here decides: the
//! rules are in `seccomp.rs`, the answers in `init/listener.rs`.
#![expect(
    unsafe_code,
    reason = "the seccomp interface is only available from libc"
)]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// A system call that the filter handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Identifies this call in the answer.
    pub(super) id: u64,
    /// The thread that made it.
    pub(super) pid: u32,
    /// Its number.
    pub(super) number: i32,
    /// The calling convention.
    pub(super) architecture: u32,
    /// Its arguments.
    pub(super) arguments: [u64; 6],
}

/// How a call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterAnswer {
    /// The kernel runs it, with whatever its arguments are by then.
    Continue,
    /// It was made for the caller and succeeded.
    Done,
    /// It fails with this error.
    Fail(Errno),
}

/// Installs a filter program for this process and everything it starts, and returns the listener
/// its calls are handed to. Once a call has been taken, only a fatal signal interrupts it, so that
/// no call happens twice.
pub(super) fn install(program: &[u64]) -> Result<OwnedFd, Errno> {
    /// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`
    const WAIT_KILLABLE: libc::c_ulong = 1 << 5;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;
    let number = load(program, flags)?;
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn load(program: &[u64], flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::TOOBIG)?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: the program is eight bytes an instruction as `sock_filter` is, aligned at least as
    // strictly, and outlives the call, which only reads it.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    })
}

/// Takes the next call; `None` if its caller gave up in the meantime.
pub(super) fn take(listener: BorrowedFd<'_>) -> Result<Option<Call>, Errno> {
    // SAFETY: all zeroes is a valid value of this plain structure, and what the kernel asks for.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one such structure to the pointer.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut call,
        )
    };
    match check(libc::c_long::from(result)) {
        Ok(_) => Ok(Some(Call {
            id: call.id,
            pid: call.pid,
            number: call.data.nr,
            architecture: call.data.arch,
            arguments: call.data.args,
        })),
        Err(Errno::NOENT | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Answers a call. One whose caller gave up in the meantime needs no answer.
pub(super) fn answer(listener: BorrowedFd<'_>, id: u64, answer: FilterAnswer) -> Result<(), Errno> {
    let (error, flags) = match answer {
        FilterAnswer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE),
        FilterAnswer::Done => (0, 0),
        FilterAnswer::Fail(errno) => (-errno.raw_os_error(), 0),
    };
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error,
        #[expect(clippy::cast_possible_truncation, reason = "the one flag is bit 0")]
        flags: flags as u32,
    };
    // SAFETY: the request reads one such structure from the pointer.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            &raw mut response,
        )
    };
    match check(libc::c_long::from(result)) {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Whether the caller still waits for an answer, and the id still refers to its call.
pub(super) fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    let mut id = id;
    // SAFETY: the request reads one such number from the pointer.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw mut id,
        )
    };
    result == 0
}

/// Wakes a caller on the processor it ran on before, which halves the cost of a call that is
/// checked. A kernel without this is merely slower.
pub(super) fn wake_on_the_same_processor(listener: BorrowedFd<'_>) {
    /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the request takes its flags by value and touches no memory.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        );
    }
}

/// Reads memory of another process. Stops at the end of its mapped memory.
pub(super) fn read_memory(pid: u32, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| Errno::SRCH)?;
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address),
        iov_len: buffer.len(),
    };
    // SAFETY: our side is a live buffer of that length; the other side is checked by the kernel.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).map_err(|_| last_error())
}

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result >= 0 {
        Ok(result)
    } else {
        Err(last_error())
    }
}

fn last_error() -> Errno {
    let raw = std::io::Error::last_os_error().raw_os_error();
    raw.map_or(Errno::IO, Errno::from_raw_os_error)
}
