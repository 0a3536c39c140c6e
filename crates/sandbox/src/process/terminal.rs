//! A pseudo-terminal for a child: our end, the child's end, its size and its keys.
//!
//! The child's end is opened here without becoming anybody's controlling terminal. The code that
//! starts the child does that: `spawn.rs` by opening it by name in the new session, a sandbox's
//! init with `TIOCSCTTY`. It is never the terminal Haft itself may run on, so nothing a child
//! writes to it or pushes into it reaches the user's own terminal.

use std::{
    ffi::CString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use haft_contract::ops::TerminalSize;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt},
    termios::{SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize},
};

/// The end-of-file key if the terminal's own is not known: Ctrl-D.
const END_OF_FILE: u8 = 0x04;

/// Both ends of a pseudo-terminal.
pub(crate) struct Terminal {
    /// The end we read from and write to; never blocks.
    pub(crate) ours: OwnedFd,
    /// The end the child gets.
    pub(crate) theirs: OwnedFd,
    /// The name of the child's end on this machine.
    pub(crate) path: CString,
}

impl Terminal {
    /// Opens a terminal of this size.
    pub(crate) fn open(size: TerminalSize) -> Result<Self, Errno> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        resize(ours.as_fd(), size)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        let path = ptsname(&ours, Vec::new())?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        Ok(Self { ours, theirs, path })
    }
}

/// Resizes a terminal; the kernel notifies the foreground program with SIGWINCH.
pub(crate) fn resize(terminal: BorrowedFd<'_>, size: TerminalSize) -> Result<(), Errno> {
    tcsetwinsize(
        terminal,
        Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
}

/// The byte that means end of file on a terminal, as configured by the program on it.
pub(crate) fn end_of_file(terminal: BorrowedFd<'_>) -> u8 {
    let set = tcgetattr(terminal).map(|set| set.special_codes[SpecialCodeIndex::VEOF]);
    // Zero means that the key is switched off.
    set.ok().filter(|key| *key != 0).unwrap_or(END_OF_FILE)
}
