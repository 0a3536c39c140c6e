//! The process that becomes the command: from fork to exec, in the order that matters.
//!
//! It gives up rights step by step and reports the step that failed. Every step is required; the
//! command does not run unless all succeed.
#![expect(
    unsafe_code,
    reason = "fork, exec and signals are only available from libc"
)]

use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::Pid,
};

use crate::{
    filter, landlock, limits,
    seccomp::FilterProgram,
    wire::{self, CommandLine, File, Notice, Step},
};

/// A process that is about to become the command.
pub(super) struct StartingCommand {
    pub(super) pid: Pid,
    /// Delivers the listener of its filter, or why it failed; closes once it has become the
    /// command.
    pub(super) socket: OwnedFd,
}

/// Forks the process that becomes the command.
pub(super) fn start(
    command: &CommandLine,
    groups: &[OwnedFd],
    program: Option<&FilterProgram>,
) -> Result<StartingCommand, Errno> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: this process has one thread, so its copy finds everything in order.
    match unsafe { libc::fork() } {
        0 => {
            let Err(failure) = become_command(command, groups, program, theirs.as_fd());
            let _ = wire::send(&theirs, &failure.notice(), None);
            // SAFETY: ends this process without running any code of the process it was copied from.
            unsafe { libc::_exit(127) }
        }
        -1 => Err(last_error()),
        pid => Ok(StartingCommand {
            pid: Pid::from_raw(pid).ok_or(Errno::CHILD)?,
            socket: ours,
        }),
    }
}

/// A step that failed, and its error.
struct Failure {
    step: Step,
    errno: Errno,
    detail: String,
}

impl Failure {
    fn notice(&self) -> Notice {
        Notice::Failed {
            step: self.step,
            errno: self.errno.raw_os_error(),
            detail: self.detail.clone(),
        }
    }
}

/// Gives up everything the command must not have, then becomes it.
fn become_command(
    command: &CommandLine,
    groups: &[OwnedFd],
    program: Option<&FilterProgram>,
    socket: BorrowedFd<'_>,
) -> Result<std::convert::Infallible, Failure> {
    let on = |step| move |errno| failure(step, errno);
    rustix::process::setsid().map_err(on(Step::Process))?;
    default_signals();
    place_streams(&command.streams).map_err(on(Step::Process))?;
    if command.takes_terminal {
        // Standard input may be closed.
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdout()).map_err(on(Step::Terminal))?;
    }
    for group in groups {
        rustix::io::write(group, b"0").map_err(on(Step::Group))?;
    }
    change_directory(command).map_err(on(Step::Directory))?;
    let executable = Executable::new(command).map_err(on(Step::Program))?;
    let limits: Vec<_> = command
        .limits
        .iter()
        .filter_map(wire::Rlimit::limit)
        .collect();
    rustix::thread::set_no_new_privs(true).map_err(on(Step::Process))?;
    if let Some(rules) = &command.landlock {
        landlock::apply(rules).map_err(|error| Failure {
            step: Step::Landlock,
            errno: Errno::PERM,
            detail: error.to_string(),
        })?;
    }
    limits::apply(&limits).map_err(on(Step::Limits))?;
    if let Some(FilterProgram(program)) = program {
        let listener = filter::install(program).map_err(on(Step::Filter))?;
        wire::send(socket, &Notice::Ready, Some(listener.as_fd())).map_err(on(Step::Filter))?;
    }
    let count = u32::try_from(command.streams.len()).unwrap_or(0);
    close_from(count).map_err(on(Step::Process))?;
    Err(failure(Step::Program, executable.execute()))
}

/// Gives the command's own descriptors their numbers, starting at 0.
fn place_streams(streams: &[i32]) -> Result<(), Errno> {
    /// Above every number a stream has or will get.
    const CLEAR: i32 = 64;
    let clear = streams
        .iter()
        // SAFETY: the descriptor was handed to this process for this, and is open.
        .map(|number| unsafe { BorrowedFd::borrow_raw(*number) })
        .map(|stream| rustix::io::fcntl_dupfd_cloexec(stream, CLEAR))
        .collect::<Result<Vec<_>, _>>()?;
    for (number, stream) in (0..).zip(&clear) {
        // SAFETY: this number now belongs to a stream that was duplicated above, or to one of the
        // init's descriptors, of which this process needs none below the streams' count.
        if unsafe { libc::dup2(stream.as_raw_fd(), number) } < 0 {
            return Err(last_error());
        }
    }
    Ok(())
}

/// Changes to the directory without following a link anywhere below the root.
fn change_directory(command: &CommandLine) -> Result<(), Errno> {
    let root = rustix::fs::open(
        &command.root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let directory = openat2(
        &root,
        &command.cwd,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )?;
    rustix::process::fchdir(directory)
}

/// What to execute, prepared in advance: nothing is allocated once the limits are set.
struct Executable {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Executable {
    fn new(command: &CommandLine) -> Result<Self, Errno> {
        let c_string = |text: &String| CString::new(text.as_str()).map_err(|_| Errno::INVAL);
        let candidates = match &command.file {
            File::Path(path) => vec![c_string(path)?],
            File::Named(name, directories) => directories
                .iter()
                .map(|directory| c_string(&format!("{directory}/{name}")))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            candidates,
            arguments: command
                .arguments
                .iter()
                .map(c_string)
                .collect::<Result<_, _>>()?,
            environment: command
                .environment
                .iter()
                .map(c_string)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Executes the first candidate that works; returns only if none did, with the reason.
    fn execute(&self) -> Errno {
        let arguments = pointers(&self.arguments);
        let environment = pointers(&self.environment);
        let mut found = Errno::NOENT;
        for candidate in &self.candidates {
            // SAFETY: every pointer is to a live NUL-terminated string or a NULL-terminated array
            // of such.
            unsafe {
                libc::execve(candidate.as_ptr(), arguments.as_ptr(), environment.as_ptr());
            }
            match last_error() {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => found = Errno::ACCESS,
                errno => return errno,
            }
        }
        found
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Closes every descriptor from this number at the exec, and not before: the last of them reports
/// whether the exec worked.
fn close_from(number: u32) -> Result<(), Errno> {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: only marks descriptors; none is closed here.
    let result = unsafe { libc::close_range(number, u32::MAX, flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// Sets every signal to its default and blocks none, whatever the init does with its own.
fn default_signals() {
    // SAFETY: setting a disposition to the default touches no memory of ours; the kernel refuses
    // numbers that cannot be set. The set is initialised by the first of the two calls on it.
    unsafe {
        for number in 1..=64 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

fn failure(step: Step, errno: Errno) -> Failure {
    Failure {
        step,
        errno,
        detail: String::new(),
    }
}

fn last_error() -> Errno {
    let raw = std::io::Error::last_os_error().raw_os_error();
    raw.map_or(Errno::IO, Errno::from_raw_os_error)
}
