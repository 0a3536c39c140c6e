//! A loopback that the commands of one session share, so that one reaches the server another
//! started.
//!
//! Otherwise every command has a network of its own. Bubblewrap makes a user namespace and a network
//! in it that has nothing but its loopback, and the helper in it hands both over ([`make`]); they
//! last as long as Haft has their descriptors. [`enter`] moves a process in before it becomes the
//! bubblewrap of a command, which then makes every other namespace as usual. A command with a way out never enters:
//! whoever shared its network would share its proxy.

use std::{
    collections::HashMap,
    ffi::{CString, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

use haft_contract::ops::SharedLoopback;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{
    helper_flag,
    init::adopt,
    readable::readable,
    spawn::{self, Launch, StartedChild},
    spawner,
    wire::{self, Notice},
};

/// The helper mode that hands over a new loopback.
pub(crate) const MAKE: &str = "make-loopback";

/// The helper mode that enters one.
pub(crate) const ENTER: &str = "enter-loopback";

/// How long making a loopback and entering it for the first time may take together. The start of a
/// command waits for it and cannot be cancelled meanwhile.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The loopbacks that are in use.
#[derive(Debug, Default)]
pub(crate) struct Loopbacks {
    held: Mutex<HashMap<SharedLoopback, Weak<HeldLoopback>>>,
    /// Why one could not be made. No other is tried after that: what a machine refuses once it
    /// refuses every command, and each would wait for it.
    refused: OnceLock<Errno>,
}

/// A loopback, as long as somebody uses it.
#[derive(Debug)]
pub(crate) struct HeldLoopback {
    user: OwnedFd,
    network: OwnedFd,
}

impl Loopbacks {
    /// The loopback of this name, made if nobody uses it yet. `None` if this machine cannot share
    /// one; a command then has its own, which is stricter. Blocks.
    pub(crate) fn get(
        &self,
        name: &SharedLoopback,
        bubblewrap: &Path,
        helper: &Path,
    ) -> Option<Arc<HeldLoopback>> {
        self.get_or_make(name, || {
            HeldLoopback::make(bubblewrap, helper, Instant::now() + START_LIMIT)
        })
    }

    fn get_or_make(
        &self,
        name: &SharedLoopback,
        make: impl FnOnce() -> Result<HeldLoopback, Errno>,
    ) -> Option<Arc<HeldLoopback>> {
        if let Some(held) = self.lock().get(name).and_then(Weak::upgrade) {
            return Some(held);
        }
        if self.refused.get().is_some() {
            return None;
        }
        let new = match make() {
            Ok(new) => Arc::new(new),
            Err(errno) => {
                // If several tried at once, only the first says so.
                if self.refused.set(errno).is_ok() {
                    tracing::warn!(%errno, "commands of a session cannot share a loopback here");
                }
                return None;
            }
        };
        let mut held = self.lock();
        held.retain(|_, one| one.strong_count() > 0);
        // If two were made at once, the second is dropped.
        if let Some(first) = held.get(name).and_then(Weak::upgrade) {
            return Some(first);
        }
        held.insert(name.clone(), Arc::downgrade(&new));
        Some(new)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SharedLoopback, Weak<HeldLoopback>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldLoopback {
    /// The namespaces to enter: of users first, which owns the network.
    pub(crate) fn namespaces(&self) -> [BorrowedFd<'_>; 2] {
        [self.user.as_fd(), self.network.as_fd()]
    }

    fn make(bubblewrap: &Path, helper: &Path, deadline: Instant) -> Result<Self, Errno> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let helper_bytes = helper.as_os_str().as_bytes();
        // What is seen in it does not matter: the helper reads nothing there.
        let words = [
            b"bwrap".as_slice(),
            b"--unshare-user",
            b"--unshare-net",
            b"--die-with-parent",
            b"--dev-bind",
            b"/",
            b"/",
            b"--",
            helper_bytes,
            helper_flag::FLAG.as_bytes(),
            MAKE.as_bytes(),
            b"3",
        ];
        let _maker = EndedOnDrop(start(bubblewrap, c_strings(&words)?, vec![theirs])?);
        let user = received(&ours, deadline)?;
        let network = received(&ours, deadline)?;
        try_to_enter(helper, &user, &network, deadline)?;
        Ok(Self { user, network })
    }
}

/// A process that is ended and reaped when it is no longer needed.
pub(crate) struct EndedOnDrop(pub(crate) StartedChild);

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.0.pidfd, Signal::KILL);
        self.0.reap();
    }
}

/// Enters once before anything depends on it: some machines refuse.
fn try_to_enter(
    helper: &Path,
    user: &OwnedFd,
    network: &OwnedFd,
    deadline: Instant,
) -> Result<(), Errno> {
    let words = ["haft", helper_flag::FLAG, ENTER, "3", "4"].map(str::as_bytes);
    let copies = [user, network].map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0));
    let copies = copies.into_iter().collect::<Result<Vec<_>, _>>()?;
    let tried = EndedOnDrop(start(helper, c_strings(&words)?, copies)?);
    if !readable(tried.0.pidfd.as_fd(), deadline)? {
        return Err(Errno::TIMEDOUT);
    }
    let ended = WaitId::PidFd(tried.0.pidfd.as_fd());
    let status = waitid(ended, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    match status.and_then(|status| status.exit_status()) {
        Some(0) => Ok(()),
        Some(_) | None => Err(Errno::PERM),
    }
}

/// Starts a program with these descriptors from 3 on, and nothing else.
fn start(
    program: &Path,
    words: Vec<CString>,
    descriptors: Vec<OwnedFd>,
) -> Result<StartedChild, Errno> {
    let program = c_string(program.as_os_str().as_bytes())?;
    spawner::run(move || {
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut handed = vec![nothing.as_fd(); 3];
        handed.extend(descriptors.iter().map(AsFd::as_fd));
        spawn::launch(&Launch {
            program: &program,
            arguments: &words,
            environment: &[],
            directory: root.as_fd(),
            descriptors: &handed,
            terminal: None,
        })
    })
}

fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

fn c_strings(words: &[&[u8]]) -> Result<Vec<CString>, Errno> {
    words.iter().map(|word| c_string(word)).collect()
}

/// The next namespace that is handed over.
fn received(socket: &OwnedFd, deadline: Instant) -> Result<OwnedFd, Errno> {
    if !readable(socket.as_fd(), deadline)? {
        return Err(Errno::TIMEDOUT);
    }
    match wire::receive::<Notice>(socket)? {
        Some((Notice::Ready, Some(namespace))) => Ok(namespace),
        Some(_) | None => Err(Errno::PERM),
    }
}

/// The words that have the helper enter a loopback and become bubblewrap.
pub(crate) fn entering(
    namespaces: [i32; 2],
    bubblewrap: &Path,
    arguments: Vec<CString>,
) -> Result<Vec<CString>, Errno> {
    let [user, network] = namespaces.map(|number| number.to_string());
    let mut words = c_strings(&[
        b"haft",
        helper_flag::FLAG.as_bytes(),
        ENTER.as_bytes(),
        user.as_bytes(),
        network.as_bytes(),
        bubblewrap.as_os_str().as_bytes(),
    ])?;
    // The name bubblewrap gets is its path.
    words.extend(arguments.into_iter().skip(1));
    Ok(words)
}

/// The helper mode that hands over the namespaces it was started in.
pub(crate) fn make(arguments: &[OsString]) -> ExitCode {
    let made = number(arguments.first())
        .ok_or(Errno::INVAL)
        .and_then(|number| {
            let socket = adopt(number);
            ["/proc/self/ns/user", "/proc/self/ns/net"]
                .into_iter()
                .try_for_each(|path| {
                    let namespace = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                    wire::send(&socket, &Notice::Ready, Some(namespace.as_fd()))
                })
        });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

/// The helper mode that enters a loopback and becomes another program, if one is named.
pub(crate) fn enter(arguments: &[OsString]) -> ExitCode {
    let [user, network, rest @ ..] = arguments else {
        return ExitCode::from(3);
    };
    let (Some(user), Some(network)) = (number(Some(user)), number(Some(network))) else {
        return ExitCode::from(3);
    };
    let moved = [
        (user, LinkNameSpaceType::User),
        (network, LinkNameSpaceType::Network),
    ]
    .into_iter()
    .try_for_each(|(number, kind)| {
        // Closed here, so that no other program gets it.
        let namespace = adopt(number);
        move_into_link_name_space(namespace.as_fd(), Some(kind))
    });
    match (moved, rest.split_first()) {
        (Err(_), _) => ExitCode::from(3),
        (Ok(()), None) => ExitCode::SUCCESS,
        (Ok(()), Some((program, arguments))) => {
            let error = Command::new(PathBuf::from(program)).args(arguments).exec();
            tracing::debug!(%error, "bubblewrap cannot be started");
            ExitCode::from(3)
        }
    }
}

fn number(word: Option<&OsString>) -> Option<RawFd> {
    word?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs::File};

    use super::*;

    fn made() -> HeldLoopback {
        let open = || OwnedFd::from(File::open("/dev/null").unwrap());
        HeldLoopback {
            user: open(),
            network: open(),
        }
    }

    #[test]
    fn what_a_machine_refuses_is_not_tried_again() {
        let loopbacks = Loopbacks::default();
        let in_use = SharedLoopback::new("in use");
        let held = loopbacks.get_or_make(&in_use, || Ok(made())).unwrap();
        let tries = Cell::new(0);
        for name in ["a", "a", "b"] {
            let refused = loopbacks.get_or_make(&SharedLoopback::new(name), || {
                tries.set(tries.get() + 1);
                Err(Errno::PERM)
            });
            assert!(refused.is_none());
        }
        assert_eq!(tries.get(), 1);
        // What is in use stays in use.
        let again = loopbacks.get_or_make(&in_use, || Ok(made())).unwrap();
        assert!(Arc::ptr_eq(&held, &again));
    }

    #[test]
    fn a_step_has_no_more_time_than_is_left_of_the_whole() {
        let (ours, _theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let over = Instant::now();
        assert_eq!(received(&ours, over).err(), Some(Errno::TIMEDOUT));
    }
}
