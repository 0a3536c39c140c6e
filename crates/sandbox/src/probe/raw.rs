//! System calls by number. The C library wraps only some of those the attempts use, and would
//! answer some of them itself.
#![expect(unsafe_code, reason = "makes system calls by number")]

use std::ffi::CString;

use rustix::io::Errno;

use super::attempt::Unusable;

/// Makes a system call.
///
/// # Safety
///
/// As for the call itself: every word that the kernel takes for a pointer is null, outside user
/// memory, or points to what the call expects for as long as it runs, and the call takes nothing
/// away from this process that its code relies on.
pub(super) unsafe fn call<const N: usize>(
    number: libc::c_long,
    words: [usize; N],
) -> Result<usize, Errno> {
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    // SAFETY: the caller keeps to what the call expects; `syscall` passes six words on.
    let answer =
        unsafe { libc::syscall(number, word(0), word(1), word(2), word(3), word(4), word(5)) };
    checked(answer)
}

/// Turns a negative result of the C library into the error in `errno`.
pub(super) fn checked(answer: libc::c_long) -> Result<usize, Errno> {
    usize::try_from(answer).map_err(|_| last_error())
}

/// The error of the last call that failed.
pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// A NUL-terminated copy of a text.
pub(super) fn c_string(text: &str) -> Result<CString, Unusable> {
    CString::new(text).map_err(|_| Unusable::new(format!("`{text}` holds a null byte")))
}

/// The number -1 as a word: an invalid descriptor, or an address outside user memory.
pub(super) const MINUS_ONE: usize = usize::MAX;
