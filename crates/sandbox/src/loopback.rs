//! A loopback that the commands of one session share, so that one reaches the server another
//! started.
//!
//! Otherwise every command has a network of its own. A holder, which is bubblewrap with the helper
//! in it, makes a user namespace and a network in it that has nothing but its loopback, and keeps
//! both while a command uses them. [`enter`] moves a process in before it becomes bubblewrap, which
//! then makes every other namespace of the command as usual. A command with a way out never enters:
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
    sync::{Arc, Mutex, PoisonError, Weak},
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
    helper,
    init::adopt,
    readable::readable,
    spawn::{self, Launch, StartedChild},
    spawner,
    wire::{self, Notice},
};

/// The helper mode that holds a loopback.
pub(crate) const HOLD: &str = "hold";

/// The helper mode that enters one.
pub(crate) const ENTER: &str = "enter";

/// How long a holder may take to be set up or entered for the first time.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The loopbacks that are in use.
#[derive(Debug, Default)]
pub(crate) struct Loopbacks(Mutex<HashMap<SharedLoopback, Weak<HeldLoopback>>>);

/// A loopback, as long as somebody uses it.
pub(crate) struct HeldLoopback {
    user: OwnedFd,
    network: OwnedFd,
    /// Held because the holder ends when it closes.
    #[expect(dead_code, reason = "held for what its end does")]
    lifeline: OwnedFd,
    holder: StartedChild,
}

impl std::fmt::Debug for HeldLoopback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HeldLoopback")
            .field(&self.holder.pid)
            .finish()
    }
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
        if let Some(held) = self.lock().get(name).and_then(Weak::upgrade) {
            return Some(held);
        }
        let made = match HeldLoopback::start(bubblewrap, helper) {
            Ok(made) => Arc::new(made),
            Err(errno) => {
                tracing::warn!(%errno, "commands of a session cannot share a loopback here");
                return None;
            }
        };
        let mut held = self.lock();
        held.retain(|_, one| one.strong_count() > 0);
        // If two were made at once, the second is dropped and thereby ended.
        if let Some(first) = held.get(name).and_then(Weak::upgrade) {
            return Some(first);
        }
        held.insert(name.clone(), Arc::downgrade(&made));
        Some(made)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SharedLoopback, Weak<HeldLoopback>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldLoopback {
    /// The namespaces to enter: of users first, which owns the network.
    pub(crate) fn namespaces(&self) -> [BorrowedFd<'_>; 2] {
        [self.user.as_fd(), self.network.as_fd()]
    }

    fn start(bubblewrap: &Path, helper: &Path) -> Result<Self, Errno> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let mut words: Vec<CString> = Vec::new();
        // What a holder sees does not matter: it reads nothing.
        for word in [
            "bwrap",
            "--unshare-user",
            "--unshare-net",
            "--die-with-parent",
            "--dev-bind",
            "/",
            "/",
            "--",
        ] {
            words.push(c_string(word.as_bytes())?);
        }
        words.push(c_string(helper.as_os_str().as_bytes())?);
        for word in [helper::FLAG, HOLD, "3"] {
            words.push(c_string(word.as_bytes())?);
        }
        let holder = start(bubblewrap, words, vec![theirs])?;
        let mut setup = HolderSetup(Some(holder));
        let user = received(&ours)?;
        let network = received(&ours)?;
        try_to_enter(helper, &user, &network)?;
        let holder = setup.0.take().ok_or(Errno::CHILD)?;
        Ok(Self {
            user,
            network,
            lifeline: ours,
            holder,
        })
    }
}

impl Drop for HeldLoopback {
    fn drop(&mut self) {
        end(&self.holder);
    }
}

/// A holder that is ended unless it is taken.
struct HolderSetup(Option<StartedChild>);

impl Drop for HolderSetup {
    fn drop(&mut self) {
        if let Some(holder) = &self.0 {
            end(holder);
        }
    }
}

fn end(child: &StartedChild) {
    let _ = pidfd_send_signal(&child.pidfd, Signal::KILL);
    child.reap();
}

/// Enters once before anything depends on it: some machines refuse.
fn try_to_enter(helper: &Path, user: &OwnedFd, network: &OwnedFd) -> Result<(), Errno> {
    let words = ["haft", helper::FLAG, ENTER, "3", "4"];
    let words = words.map(|word| c_string(word.as_bytes()));
    let words = words.into_iter().collect::<Result<Vec<_>, _>>()?;
    let copies = [user, network].map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0));
    let copies = copies.into_iter().collect::<Result<Vec<_>, _>>()?;
    let tried = start(helper, words, copies)?;
    let ended = readable(tried.pidfd.as_fd(), Instant::now() + START_LIMIT)?;
    if !ended {
        end(&tried);
        return Err(Errno::TIMEDOUT);
    }
    let status = waitid(WaitId::PidFd(tried.pidfd.as_fd()), WaitIdOptions::EXITED)?;
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

/// The next namespace that a holder sends.
fn received(socket: &OwnedFd) -> Result<OwnedFd, Errno> {
    if !readable(socket.as_fd(), Instant::now() + START_LIMIT)? {
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
    let mut words = Vec::with_capacity(arguments.len() + 5);
    for word in ["haft", helper::FLAG, ENTER, &user, &network] {
        words.push(c_string(word.as_bytes())?);
    }
    words.push(c_string(bubblewrap.as_os_str().as_bytes())?);
    // The name bubblewrap gets is its path.
    words.extend(arguments.into_iter().skip(1));
    Ok(words)
}

/// The helper mode that holds a loopback until nobody has the other end of its socket.
pub(crate) fn hold(arguments: &[OsString]) -> ExitCode {
    let held = number(arguments.first())
        .ok_or(Errno::INVAL)
        .and_then(|number| {
            let socket = adopt(number);
            for namespace in ["/proc/self/ns/user", "/proc/self/ns/net"] {
                let namespace = open(namespace, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                wire::send(&socket, &Notice::Ready, Some(namespace.as_fd()))?;
            }
            // Nothing is ever sent to it.
            wire::receive::<Notice>(&socket)
        });
    match held {
        Ok(_) => ExitCode::SUCCESS,
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
