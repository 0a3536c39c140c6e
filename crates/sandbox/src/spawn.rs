//! Starts a child with `posix_spawn`: the parent is never copied, so a large parent starts children
//! as fast as a small one. None of our code runs between fork and exec.
#![expect(unsafe_code, reason = "posix_spawn is only available from libc")]

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid},
};

/// Descriptors for the child are first moved here or above, clear of the numbers they get in the
/// child.
const CLEAR_OF_STANDARD: i32 = 32;

/// The number of standard output.
const STANDARD_OUTPUT: i32 = 1;

/// Everything a child starts with.
pub(crate) struct Launch<'a> {
    /// The program's path.
    pub(crate) program: &'a CStr,
    /// Its arguments, starting with its name.
    pub(crate) arguments: &'a [CString],
    /// Its environment.
    pub(crate) environment: &'a [CString],
    /// The directory it starts in.
    pub(crate) directory: BorrowedFd<'a>,
    /// The descriptors it gets, numbered from 0 there. It gets no others.
    pub(crate) descriptors: &'a [BorrowedFd<'a>],
    /// The terminal that becomes its controlling terminal and its standard output.
    pub(crate) terminal: Option<&'a CStr>,
}

/// A child that has been started.
pub(crate) struct StartedChild {
    /// Its process id, which is also that of its group and its session.
    pub(crate) pid: Pid,
    /// A descriptor for the process itself.
    pub(crate) pidfd: OwnedFd,
}

impl StartedChild {
    /// Waits until it has ended and reaps it.
    pub(crate) fn reap(&self) {
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Err(Errno::INTR) => {}
                // It still runs, and waiting on a non-blocking descriptor fails.
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], None);
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Starts a child in its own session, with default signals and only the descriptors named.
pub(crate) fn launch(launch: &Launch<'_>) -> Result<StartedChild, Errno> {
    // Held until the child has started.
    let moved = launch
        .descriptors
        .iter()
        .map(|descriptor| clear(*descriptor))
        .collect::<Result<Vec<_>, Errno>>()?;
    let directory = clear(launch.directory)?;

    let mut actions = Actions::new()?;
    actions.change_directory(directory.as_fd())?;
    let mut number = 0;
    for descriptor in &moved {
        actions.hand_over(descriptor.as_fd(), number)?;
        number += 1;
    }
    if let Some(terminal) = launch.terminal {
        // By now the child leads a session without a terminal; the first one it opens becomes its
        // own.
        actions.open(terminal, STANDARD_OUTPUT)?;
    }
    // Ours close on exec; this closes those that other code in this process left open.
    actions.close_from(number)?;
    let attributes = Attributes::new()?;
    let arguments = pointers(launch.arguments);
    let environment = pointers(launch.environment);
    let mut pid = 0;
    // SAFETY: every pointer is to a live, NUL-terminated string or a NULL-terminated array of
    // such, and the actions and attributes are initialised; posix_spawn only reads them.
    let result = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            launch.program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    check(result)?;
    let pid = Pid::from_raw(pid).ok_or(Errno::CHILD)?;
    // Only we can reap the child, so its id still refers to it.
    let pidfd = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
    Ok(StartedChild { pid, pidfd })
}

/// A duplicate well above the numbers descriptors get in the child, closed on exec.
fn clear(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, CLEAR_OF_STANDARD)
}

fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_raw_os_error(result))
    }
}

/// What is done to descriptors in the child, in order.
struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> Result<Self, Errno> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the pointer is to writable memory of the right type.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Self(actions))
    }

    fn change_directory(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        // SAFETY: the actions are initialised.
        check(unsafe {
            libc::posix_spawn_file_actions_addfchdir_np(self.0.as_mut_ptr(), directory.as_raw_fd())
        })
    }

    fn hand_over(&mut self, descriptor: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
        // SAFETY: the actions are initialised.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(
                self.0.as_mut_ptr(),
                descriptor.as_raw_fd(),
                number,
            )
        })
    }

    fn open(&mut self, path: &CStr, number: i32) -> Result<(), Errno> {
        // SAFETY: the actions are initialised, and the path is copied.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(
                self.0.as_mut_ptr(),
                number,
                path.as_ptr(),
                libc::O_RDWR,
                0,
            )
        })
    }

    fn close_from(&mut self, number: i32) -> Result<(), Errno> {
        // SAFETY: the actions are initialised.
        check(unsafe {
            libc::posix_spawn_file_actions_addclosefrom_np(self.0.as_mut_ptr(), number)
        })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: they were initialised and are not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// Its own session, no signal blocked, every signal at its default: Rust programs ignore SIGPIPE,
/// and a child must not inherit that.
struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new() -> Result<Self, Errno> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: the pointer is to writable memory of the right type.
        check(unsafe { libc::posix_spawnattr_init(raw.as_mut_ptr()) })?;
        let mut attributes = Self(raw);
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let flags = libc::c_int::from(libc::POSIX_SPAWN_SETSID)
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = libc::c_short::try_from(flags).map_err(|_| Errno::INVAL)?;
        // SAFETY: the sets are initialised by the first two calls before the others read them,
        // and the attributes are initialised.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(
                attributes.0.as_mut_ptr(),
                none.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigdefault(
                attributes.0.as_mut_ptr(),
                all.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setflags(
                attributes.0.as_mut_ptr(),
                flags,
            ))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: they were initialised and are not used again.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaping_waits_for_a_child_that_still_runs() {
        let words = ["sleep", "0.3"].map(|word| CString::new(word).unwrap());
        let nothing = std::fs::File::open("/dev/null").unwrap();
        let started = launch(&Launch {
            program: c"/bin/sleep",
            arguments: &words,
            environment: &[],
            directory: std::fs::File::open("/").unwrap().as_fd(),
            descriptors: &[nothing.as_fd(); 3],
            terminal: None,
        })
        .unwrap();
        started.reap();
        let again = waitid(WaitId::PidFd(started.pidfd.as_fd()), WaitIdOptions::EXITED);
        assert_eq!(again.err(), Some(Errno::CHILD), "it is off the table");
    }
}
