//! Mode and times of files, in a sandbox that sees the machine's own file system.
//!
//! Landlock does not guard them, so without its own file system a command could make somebody's
//! private key readable for everybody. The init makes these changes itself, on a file it has opened
//! and seen to lie where the command may change things: what was checked is what is changed,
//! whatever the command does to its memory or its names meanwhile. Owners and extended attributes
//! are never changed.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, chmodat, open, openat},
    io::Errno,
};

use super::names::{low_half, read_text};
use crate::filter::{Call, read_memory};

/// The places where attributes may be changed.
pub(super) struct Attributes {
    places: Vec<PathBuf>,
}

/// The result of an attribute call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttributeChange {
    /// The change was made, or failed as it would have for the command.
    Made(Result<(), Errno>),
    /// Refused: the file lies outside the allowed places.
    Elsewhere(PathBuf),
}

enum Change {
    Mode(Mode),
    Times(Timestamps),
}

/// Which file a call is about.
struct Target {
    /// The descriptor it starts from; `None` is the working directory.
    directory: Option<u64>,
    /// The text of its path; `None` means the descriptor itself.
    path: Option<u64>,
    /// Whether a final link is followed.
    flags: OFlags,
}

impl Attributes {
    /// Allows changes beneath these places.
    pub(super) fn new<'p>(places: impl Iterator<Item = &'p Path>) -> Self {
        Self {
            places: places
                .filter_map(|place| place.canonicalize().ok())
                .collect(),
        }
    }

    /// Makes the change a call asks for. `still_waits` tells whether its caller's id still refers
    /// to its caller.
    pub(super) fn change(&self, call: &Call, still_waits: impl Fn() -> bool) -> AttributeChange {
        let (target, change) = match parse(call) {
            Ok(parsed) => parsed,
            Err(errno) => return AttributeChange::Made(Err(errno)),
        };
        let file = match target.open(call.pid) {
            Ok(file) if still_waits() => file,
            Ok(_) => return AttributeChange::Made(Err(Errno::INTR)),
            Err(errno) => return AttributeChange::Made(Err(errno)),
        };
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Ok(real) = std::fs::read_link(&held) else {
            return AttributeChange::Made(Err(Errno::PERM));
        };
        if !self.places.iter().any(|place| real.starts_with(place)) {
            return AttributeChange::Elsewhere(real);
        }
        AttributeChange::Made(match change {
            Change::Mode(mode) => chmodat(CWD, &held, mode, AtFlags::empty()),
            Change::Times(times) => rustix::fs::utimensat(CWD, &held, &times, AtFlags::empty()),
        })
    }
}

impl Target {
    /// Opens the file without touching it.
    fn open(&self, pid: u32) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let base = match self.directory.map(low_half) {
            None | Some(libc::AT_FDCWD) => format!("/proc/{pid}/cwd"),
            Some(number) => format!("/proc/{pid}/fd/{number}"),
        };
        let base = open(base, flags, Mode::empty())?;
        match self.path {
            None => Ok(base),
            Some(address) => {
                let mut text = read_text(pid, address)?;
                if let Some(rest) = text.strip_prefix(b"/proc/self/") {
                    // The caller's `self`, not ours.
                    text = [format!("/proc/{pid}/").as_bytes(), rest].concat();
                }
                openat(base, text, flags | self.flags, Mode::empty())
            }
        }
    }
}

/// The file and the change a call asks for.
fn parse(call: &Call) -> Result<(Target, Change), Errno> {
    let [first, second, third, fourth, ..] = call.arguments;
    let by_path = |path| Target {
        directory: None,
        path: Some(path),
        flags: OFlags::empty(),
    };
    let at = |directory, path, flags| Target {
        directory: Some(directory),
        path: (path != 0).then_some(path),
        flags,
    };
    let mode =
        |register: u64| Change::Mode(Mode::from_raw_mode(low_half(register).cast_unsigned()));
    #[cfg(target_arch = "x86_64")]
    match i64::from(call.number) {
        libc::SYS_chmod => return Ok((by_path(first), mode(second))),
        libc::SYS_utime => return Ok((by_path(first), times(call.pid, second, Unit::Seconds)?)),
        libc::SYS_utimes => {
            return Ok((by_path(first), times(call.pid, second, Unit::Microseconds)?));
        }
        libc::SYS_futimesat => {
            let target = at(first, second, OFlags::empty());
            return Ok((target, times(call.pid, third, Unit::Microseconds)?));
        }
        _ => {}
    }
    match i64::from(call.number) {
        libc::SYS_fchmod => Ok((at(first, 0, OFlags::empty()), mode(second))),
        libc::SYS_fchmodat => Ok((at(first, second, OFlags::empty()), mode(third))),
        libc::SYS_utimensat => {
            let flags = if low_half(fourth) & libc::AT_SYMLINK_NOFOLLOW == 0 {
                OFlags::empty()
            } else {
                OFlags::NOFOLLOW
            };
            let times = times(call.pid, third, Unit::Nanoseconds)?;
            Ok((at(first, second, flags), times))
        }
        // As a file system without them answers; programs then keep to the mode.
        libc::SYS_setxattr
        | libc::SYS_lsetxattr
        | libc::SYS_fsetxattr
        | libc::SYS_removexattr
        | libc::SYS_lremovexattr
        | libc::SYS_fremovexattr => Err(Errno::OPNOTSUPP),
        // Owners.
        _ => Err(Errno::PERM),
    }
}

/// The format of a pair of times.
#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    Microseconds,
    Nanoseconds,
}

/// Reads a pair of times; a null address means now.
fn times(pid: u32, address: u64, unit: Unit) -> Result<Change, Errno> {
    if address == 0 {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        return Ok(Change::Times(Timestamps {
            last_access: now,
            last_modification: now,
        }));
    }
    let mut bytes = [0_u8; 32];
    let length = match unit {
        Unit::Seconds => 16,
        Unit::Microseconds | Unit::Nanoseconds => 32,
    };
    let buffer = bytes.get_mut(..length).ok_or(Errno::INVAL)?;
    if read_memory(pid, address, buffer)? != length {
        return Err(Errno::FAULT);
    }
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |word| i64::from_ne_bytes(*word));
    let time = |seconds: i64, part: i64| {
        let tv_nsec = match unit {
            Unit::Seconds => 0,
            Unit::Microseconds => part.checked_mul(1000)?,
            Unit::Nanoseconds => part,
        };
        Some(Timespec {
            tv_sec: seconds,
            tv_nsec,
        })
    };
    let (access, modification) = match unit {
        Unit::Seconds => (time(word(0), 0), time(word(1), 0)),
        Unit::Microseconds | Unit::Nanoseconds => (time(word(0), word(1)), time(word(2), word(3))),
    };
    Ok(Change::Times(Timestamps {
        last_access: access.ok_or(Errno::INVAL)?,
        last_modification: modification.ok_or(Errno::INVAL)?,
    }))
}
