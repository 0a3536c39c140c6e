//! The init of a sandbox: a helper process that starts the command, supervises it, and ends
//! everything the command started when it ends.
//!
//! It stays outside what confines the command, so the command can neither signal nor trace it, and
//! it cannot be read (`/proc/1/mem`, `/proc/1/environ`). It runs until the command's tree has
//! ended, until it is told to end it, or until Haft is gone, whichever comes first. It must not
//! read anything the command wrote except the text of a path the command asks to create, and where
//! git has registered a new work tree.
#![expect(
    unsafe_code,
    reason = "signal masks and inherited descriptors are only available from libc"
)]

mod attributes;
mod bridge;
mod command;
mod connections;
mod descendants;
mod listener;
mod names;
mod observe;

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    process::ExitCode,
};

use haft_contract::ops::Limit;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{AtFlags, CWD, OFlags, fcntl_setfl, statat},
    io::Errno,
    process::{
        DumpableBehavior, Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open,
        set_child_subreaper, set_dumpable_behavior,
    },
};

use self::{
    listener::{Listener, ListenerWatch, Network},
    observe::Observer,
};
use crate::{
    jail::FileId,
    wire::{self, Description, Notice, Order, Status, Step, TreeTracking},
};

/// Runs the init; the argument is the number of the descriptor that holds its description.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    // Before any process of the command exists that could look.
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let number = arguments.first().and_then(|number| number.parse().ok());
    let (Ok(()), Some(number)) = (hidden, number) else {
        return ExitCode::from(3);
    };
    let Ok((description, program)) = Description::read(adopt(number).as_fd()) else {
        return ExitCode::from(3);
    };
    let channel = adopt(description.channel);
    match Init::start(&description, program.as_ref(), &channel) {
        Ok(mut init) => {
            init.serve();
            init.end();
            ExitCode::SUCCESS
        }
        Err(notice) => {
            let _ = wire::send(&channel, &notice, None);
            ExitCode::from(3)
        }
    }
}

struct Init<'a> {
    tree: TreeTracking,
    channel: &'a OwnedFd,
    signals: OwnedFd,
    command: Pid,
    /// Set until the exec: the socket of the process that becomes the command.
    starting: Option<OwnedFd>,
    listener: Option<Listener>,
    watch: ListenerWatch<'a>,
    bridge: Option<Pid>,
    observer: Observer<'a>,
    phase: Phase,
}

/// What one round of reaping found.
struct ReapResult {
    command: Option<WaitStatus>,
    none_left: bool,
}

/// How far the command has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It runs.
    Running,
    /// It has ended; something it started may still run.
    Ended,
    /// Nothing is left to wait for.
    Over,
}

impl<'a> Init<'a> {
    fn start(
        description: &'a Description,
        program: Option<&super::seccomp::FilterProgram>,
        channel: &'a OwnedFd,
    ) -> Result<Self, Notice> {
        let on = |step| move |errno: Errno| failed(step, errno);
        let signals = take_signals().map_err(on(Step::Process))?;
        match description.tree {
            TreeTracking::Namespace => {}
            TreeTracking::Descendants => {
                let this = rustix::process::getpid();
                set_child_subreaper(Some(this)).map_err(on(Step::Process))?;
            }
        }
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
            .map_err(on(Step::Process))?;
        wire::send(channel, &Notice::Ready, Some(own.as_fd())).map_err(on(Step::Process))?;
        // From here on nothing may block on Haft reading.
        fcntl_setfl(channel, OFlags::NONBLOCK).map_err(on(Step::Process))?;
        check_identities(description)?;
        let bridge = match &description.bridge {
            None => None,
            Some(line) => Some(bridge::start(line, description).map_err(on(Step::Bridge))?),
        };
        let groups: Vec<OwnedFd> = description.groups.iter().map(|n| adopt(*n)).collect();
        let starting =
            command::start(&description.command, &groups, program).map_err(on(Step::Process))?;
        let_go_of_streams(&description.command.streams).map_err(on(Step::Process))?;
        Ok(Self {
            tree: description.tree,
            channel,
            signals,
            command: starting.pid,
            starting: Some(starting.socket),
            listener: None,
            watch: watch(description),
            bridge,
            observer: Observer::new(&description.watched),
            phase: Phase::Running,
        })
    }

    /// Handles events until everything is over.
    fn serve(&mut self) {
        while self.phase != Phase::Over {
            for ready in self.wait() {
                match ready {
                    ReadyEvent::Signals => self.reap(),
                    ReadyEvent::Starting => self.hear_command(),
                    ReadyEvent::Listener => self.answer(),
                    ReadyEvent::NobodyFiltered => self.listener = None,
                    ReadyEvent::Channel => self.obey(),
                    ReadyEvent::Broken => self.phase = Phase::Over,
                }
            }
            self.observe();
        }
    }

    /// Checks now and then whether a limit is used up.
    fn observe(&mut self) {
        if self.starting.is_some() {
            return;
        }
        let tree = self.tree;
        let found = self.observer.look_if_due(|| descendants::everything(tree));
        self.tell_exceeded(found);
    }

    fn tell_exceeded(&self, found: Option<Limit>) {
        if let Some(limit) = found {
            let notice = Notice::Exceeded(limit.as_str().to_owned());
            let _ = wire::send(self.channel, &notice, None);
        }
    }

    /// Kills everything the command started.
    fn end(&self) {
        match self.tree {
            // The kernel ends the namespace with its first process.
            TreeTracking::Namespace => {}
            TreeTracking::Descendants => descendants::kill_all(),
        }
    }

    /// Waits until there is something to do, and returns it.
    fn wait(&self) -> Vec<ReadyEvent> {
        let listener = self.listener.as_ref().map(Listener::socket);
        let mut waited = vec![
            (ReadyEvent::Signals, self.signals.as_fd()),
            (ReadyEvent::Channel, self.channel.as_fd()),
        ];
        waited.extend(listener.map(|socket| (ReadyEvent::Listener, socket)));
        let starting = self.starting.as_ref();
        waited.extend(starting.map(|socket| (ReadyEvent::Starting, socket.as_fd())));
        let mut polled: Vec<PollFd<'_>> = waited
            .iter()
            .map(|(_, descriptor)| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        let next_look = match self.starting {
            None => self.observer.until_next(),
            Some(_) => None,
        };
        let timeout = next_look.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => return Vec::new(),
            // An init that cannot wait any more must not go on as if it could.
            Err(_) => return vec![ReadyEvent::Broken],
        }
        waited
            .iter()
            .zip(&polled)
            .filter_map(|((waited, _), polled)| ready(*waited, polled.revents()))
            .collect()
    }

    /// Reaps every process that has ended, and reports the command's end.
    fn reap(&mut self) {
        let mut drained = [0_u8; size_of::<libc::signalfd_siginfo>() * 8];
        let _ = rustix::io::read(&self.signals, &mut drained);
        let reaped = reap_all(self.command);
        if reaped.command.is_some() {
            // It may have failed before the exec; if so, it has sent the reason.
            self.hear_command();
            self.phase = match self.phase {
                Phase::Running => Phase::Ended,
                Phase::Ended | Phase::Over => Phase::Over,
            };
        }
        let alone = reaped.none_left
            || (self.phase == Phase::Ended
                && self
                    .bridge
                    .is_some_and(|bridge| descendants::only(bridge, self.tree)));
        if let Some(status) = reaped.command {
            let status = match status.terminating_signal() {
                Some(signal) => Status::Signal(signal),
                None => Status::Code(status.exit_status().unwrap_or(0)),
            };
            let exceeded = self.observer.look_at_end(status.into());
            self.tell_exceeded(exceeded);
            let _ = wire::send(self.channel, &Notice::Ended { status, alone }, None);
        }
        if self.phase == Phase::Ended && alone {
            self.phase = Phase::Over;
        }
    }

    /// Reads from the process that is about to become the command.
    fn hear_command(&mut self) {
        while let Some(socket) = &self.starting {
            match wire::receive_now::<Notice>(socket) {
                Ok(Some((Notice::Ready, Some(listener)))) => {
                    self.listener = Some(Listener::new(listener, &self.watch));
                }
                Ok(Some((failed @ Notice::Failed { .. }, _))) => {
                    self.starting = None;
                    let _ = wire::send(self.channel, &failed, None);
                    self.phase = Phase::Over;
                }
                Ok(None) => {
                    // Closed by the exec.
                    self.starting = None;
                    let command = pidfd_open(self.command, PidfdFlags::empty()).ok();
                    let command = command.as_ref().map(AsFd::as_fd);
                    let _ = wire::send(self.channel, &Notice::Started, command);
                }
                Err(Errno::AGAIN) => return,
                Ok(Some(_)) | Err(_) => self.starting = None,
            }
        }
    }

    fn answer(&mut self) {
        let Some(listener) = &mut self.listener else {
            return;
        };
        match listener.serve() {
            Ok(None) => {}
            Ok(Some(refusal)) => {
                let _ = wire::send(self.channel, &Notice::Refused(refusal), None);
            }
            Err(_) => self.listener = None,
        }
    }

    /// Carries out what Haft asks for. Haft being gone is the last order.
    fn obey(&mut self) {
        match wire::receive::<Order>(self.channel) {
            Ok(Some((Order::SignalGroup(signal), _))) => {
                if self.phase == Phase::Running {
                    descendants::signal_group(self.command, signal);
                }
            }
            Ok(Some((Order::SignalAll(signal), _))) => {
                descendants::signal_all(self.tree, signal);
            }
            Err(Errno::AGAIN) => {}
            Ok(Some((Order::End, _)) | None) | Err(_) => self.phase = Phase::Over,
        }
    }
}

/// What is checked in addition to the lists of system calls.
fn watch(description: &Description) -> ListenerWatch<'_> {
    let command = &description.command;
    let watches = command.filter.is_some_and(|filter| filter.watches_names);
    ListenerWatch {
        names: watches.then_some(&*command.root),
        network: match (description.tree, &description.bridge) {
            (TreeTracking::Descendants, _) => Network::Absent,
            (TreeTracking::Namespace, None) => Network::Own,
            (TreeTracking::Namespace, Some(_)) => Network::Proxied,
        },
        attributes: command.landlock.as_ref(),
    }
}

/// What woke the init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadyEvent {
    /// A process has ended.
    Signals,
    /// Haft sent something, or is gone.
    Channel,
    /// A call waits for an answer.
    Listener,
    /// The last process under the filter has exited: no call will ever wait again.
    NobodyFiltered,
    /// The process that is to become the command sent something, or has become it.
    Starting,
    /// Waiting itself failed.
    Broken,
}

/// What to do after these poll events.
///
/// A listener that hung up stays ready until it is closed, and its process is reaped only later. If
/// that counted as work, the init would spin in between.
fn ready(waited: ReadyEvent, events: PollFlags) -> Option<ReadyEvent> {
    if events.is_empty() {
        return None;
    }
    let hung_up = !events.contains(PollFlags::IN);
    Some(match waited {
        ReadyEvent::Listener if hung_up => ReadyEvent::NobodyFiltered,
        waited => waited,
    })
}

/// Reaps every process that has ended.
fn reap_all(command: Pid) -> ReapResult {
    let mut reaped = ReapResult {
        command: None,
        none_left: false,
    };
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => reaped.command = Some(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return reaped,
            Err(_) => {
                reaped.none_left = true;
                return reaped;
            }
        }
    }
}

/// Compares what was mounted with what was meant: in between, a name may have been given to
/// something else.
fn check_identities(description: &Description) -> Result<(), Notice> {
    for (path, meant) in &description.identities {
        let found = statat(CWD, path.as_ref(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(Step::Identity, errno))?;
        let found = FileId {
            device: found.st_dev,
            inode: found.st_ino,
        };
        if found != *meant {
            return Err(failed(Step::Identity, Errno::STALE));
        }
    }
    Ok(())
}

/// Blocks every signal and returns a descriptor for the one that matters: the end of a child.
/// Nothing else ends this process early.
fn take_signals() -> Result<OwnedFd, Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call before the others read or change it.
    let number = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if number < 0 {
        return Err(Errno::MFILE);
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes the command's own descriptors: whoever reads what it writes waits for the last holder.
fn let_go_of_streams(streams: &[i32]) -> Result<(), Errno> {
    let nothing = rustix::fs::open(
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    for number in streams {
        drop(adopt(*number));
    }
    Ok(())
}

/// Takes over a descriptor that this process was started with.
pub(crate) fn adopt(number: i32) -> OwnedFd {
    // SAFETY: the description names each descriptor once, and nothing else in this process knows
    // any of them.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // A descriptor that is not open fails at its first use.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    descriptor
}

fn failed(step: Step, errno: Errno) -> Notice {
    Notice::Failed {
        step,
        errno: errno.raw_os_error(),
        detail: String::new(),
    }
}
