//! Runs an attempt in its own child: for what would change the process that makes it, and for what
//! the kernel may answer by killing it.
#![expect(unsafe_code, reason = "forks")]

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
};

use rustix::{
    io::Errno,
    process::{Pid, WaitOptions, waitpid},
};

use super::{
    attempt::Verdict,
    raw::{checked, last_error},
};

/// The longest verdict that is read back.
const MAX_VERDICT_BYTES: u64 = 64 * 1024;

/// Makes an attempt in a child and waits for it. A child that is killed counts as refused.
pub(super) fn in_child(attempt: impl FnOnce() -> Verdict) -> Verdict {
    let (reader, writer) = match rustix::pipe::pipe() {
        Ok(ends) => ends,
        Err(errno) => return Verdict::refused(errno, "a pipe for the verdict"),
    };
    match fork() {
        Err(errno) => Verdict::refused(errno, "a child to make the attempt in"),
        Ok(Forked::Child) => {
            drop(reader);
            send(writer, &attempt());
            leave(0)
        }
        Ok(Forked::Parent(child)) => {
            drop(writer);
            let verdict = receive(reader);
            match (verdict, wait(child)) {
                (Some(verdict), _) => verdict,
                (None, OwnChildEnd::Signal(signal)) => {
                    Verdict::stopped(format!("killed by signal {signal}"))
                }
                (None, OwnChildEnd::Code(code)) => {
                    Verdict::stopped(format!("the child ended with code {code} and no verdict"))
                }
            }
        }
    }
}

/// Which of the two processes this is after a fork.
pub(super) enum Forked {
    /// The new one.
    Child,
    /// The original one, with the child's id.
    Parent(Pid),
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnChildEnd {
    /// With a code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Forks this process.
pub(super) fn fork() -> Result<Forked, Errno> {
    // SAFETY: the helper process has one thread (`probe::run` is called before any is made), so
    // the child finds no lock held by a thread it does not have.
    let answer = unsafe { libc::fork() };
    match Pid::from_raw(answer) {
        None => Ok(Forked::Child),
        Some(child) if answer > 0 => Ok(Forked::Parent(child)),
        Some(_) => Err(last_error()),
    }
}

/// Ends this process at once, without the usual cleanup.
pub(super) fn leave(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs afterwards.
    unsafe { libc::_exit(code) }
}

/// Waits for a child.
pub(super) fn wait(child: Pid) -> OwnChildEnd {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => OwnChildEnd::Code(code),
                    (None, Some(signal)) => OwnChildEnd::Signal(signal),
                    (None, None) => continue,
                };
            }
            Err(Errno::INTR) | Ok(None) => {}
            Err(_) => return OwnChildEnd::Code(-1),
        }
    }
}

/// Kills a child of this process and waits for it.
pub(super) fn end(child: Pid) {
    let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
    wait(child);
}

/// A copy of the process, made with the caller's flags: 0 in the child.
///
/// # Safety
///
/// The flags must give the child a copy of the memory, not the memory itself.
pub(super) unsafe fn clone(flags: usize) -> Result<usize, Errno> {
    let flags = flags | libc::SIGCHLD.unsigned_abs() as usize;
    // SAFETY: no stack and no thread-id pointers are given, and the caller keeps memory apart, so
    // this is a fork with flags; as for `fork`, this process has one thread.
    checked(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn send(writer: OwnedFd, verdict: &Verdict) {
    let text = match verdict {
        Verdict::Succeeded { detail } => format!("s0 {detail}"),
        Verdict::Refused { errno, detail } => {
            let number = errno.map_or(0, Errno::raw_os_error);
            format!("r{number} {detail}")
        }
    };
    // A parent that is gone needs no verdict.
    let _ = File::from(writer).write_all(text.as_bytes());
}

fn receive(reader: OwnedFd) -> Option<Verdict> {
    let mut text = String::new();
    let mut reader = File::from(reader).take(MAX_VERDICT_BYTES);
    reader.read_to_string(&mut text).ok()?;
    let (head, detail) = text.split_once(' ')?;
    if let Some(number) = head.strip_prefix('r') {
        let number: i32 = number.parse().ok()?;
        let errno = (number != 0).then(|| Errno::from_raw_os_error(number));
        let detail = detail.to_owned();
        return Some(Verdict::Refused { errno, detail });
    }
    Some(Verdict::succeeded(detail))
}
