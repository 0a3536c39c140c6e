//! A child in a sandbox, led by the init there: how it ended, ending it, and reaching it.
//!
//! Everything the command started ends with its init, so this file never searches for processes.
//! The channel to the init is also its lifeline: once our last descriptor of it is closed, the init
//! ends everything by itself.

use std::{
    os::fd::{AsFd as _, AsRawFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    ops::{ExitStatus, Limit, OpsError, Refusal},
};
use haft_egress::EgressProxy;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, pidfd_send_signal},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use super::{
    child_leader::{ChildLeader, Confinement, TreeEnd},
    controls::ChildControl,
    tree::ChildTree,
    watch::watch,
};
use crate::{
    cgroup::Cgroup,
    errno,
    group_signal::signal_group,
    launch::ConfinedCommand,
    loopback::HeldLoopback,
    orphans::PrivateDirectory,
    pool::blocking,
    protected_watch::ProtectedWatch,
    spawn::StartedChild,
    wire::{self, Notice, Order},
};

/// How long a sandbox may take to vanish after being killed.
const KILL_LIMIT: Duration = Duration::from_secs(2);

/// What belongs to one command for as long as it runs.
#[derive(Default)]
pub(super) struct CommandResources {
    /// Its control group.
    pub(super) group: Option<Cgroup>,
    /// Its private directory, removed when this is dropped.
    pub(super) private: Option<PrivateDirectory>,
    /// Its way to the network.
    pub(super) proxy: Option<EgressProxy>,
    /// Watches for names that must not appear in its workspace.
    pub(super) watch: Option<ProtectedWatch>,
    /// The loopback it shares.
    pub(super) loopback: Option<Arc<HeldLoopback>>,
    /// Where the proxy listens; dropped after it.
    #[expect(dead_code, reason = "held for what its end removes")]
    pub(super) sockets: Option<PrivateDirectory>,
    /// Where the file is that covers hidden ones.
    #[expect(dead_code, reason = "held for what its end removes")]
    pub(super) covers: Option<PrivateDirectory>,
}

/// What killing the init reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillScope {
    /// It is the first process of a pid namespace; killing it kills all.
    Namespace,
    /// It must live to end what it started.
    Descendants,
}

/// The leader of a sandboxed child's tree.
pub(super) struct ConfinedLead {
    grip: KillScope,
    channel: AsyncFd<OwnedFd>,
    /// Becomes readable when the init and everything below it is gone.
    init: AsyncFd<OwnedFd>,
    reach: Arc<ConfinedReach>,
    status: Option<ExitStatus>,
    /// Whether the init reported that nothing else is left.
    alone: bool,
    confinement: Confinement,
    /// The watch over its workspace, kept from the command's end until the last look.
    watch: Option<ProtectedWatch>,
    /// Absent once handed off for reaping.
    zombie: Option<ZombieSandbox>,
}

impl ConfinedLead {
    /// Takes over a command that was just started. Must run on a runtime thread, for its poller.
    pub(super) fn new(
        confined: ConfinedCommand,
        grip: KillScope,
        mark: &str,
        belongings: CommandResources,
    ) -> Result<Self, OpsError> {
        let fail = |_: std::io::Error| errno::error(Errno::MFILE);
        let zombie = ZombieSandbox {
            outer: confined.outer,
            grip,
            mark: mark.to_owned(),
            belongings,
        };
        rustix::fs::fcntl_setfl(&confined.channel, rustix::fs::OFlags::NONBLOCK)
            .map_err(errno::error)?;
        let reach = Arc::new(ConfinedReach {
            channel: Mutex::new(Some(confined.channel.try_clone().map_err(fail)?)),
            init: confined.init.try_clone().map_err(fail)?,
            command: confined.command,
            mark: mark.to_owned(),
        });
        Ok(Self {
            grip,
            channel: watch(confined.channel, Interest::READABLE).map_err(fail)?,
            init: watch(confined.init, Interest::READABLE).map_err(fail)?,
            reach,
            status: None,
            alone: false,
            confinement: Confinement {
                exceeded: None,
                refusals: confined.refusals,
            },
            watch: None,
            zombie: Some(zombie),
        })
    }

    /// Handles one message from the init; `false` if there is none right now.
    fn hear(&mut self) -> bool {
        match wire::receive_now::<Notice>(self.channel.get_ref()) {
            Ok(Some((Notice::Ended { status, alone }, _))) => {
                self.status = Some(status.into());
                self.alone = alone;
            }
            Ok(Some((Notice::Refused(refusal), _))) => {
                if self.confinement.refusals.len() < Refusal::MAX {
                    self.confinement.refusals.extend(refusal.refusal());
                }
            }
            Ok(Some((Notice::Exceeded(word), _))) => {
                self.confinement.exceeded = Limit::parse(&word);
            }
            Ok(Some((Notice::Ready | Notice::Started | Notice::Failed { .. }, _))) => {}
            Err(Errno::AGAIN) => return false,
            // The init ended without a message: it was killed, and everything with it.
            Ok(None) | Err(_) => {
                if self.status.is_none() {
                    self.status = Some(ExitStatus::Signal(libc::SIGKILL));
                }
                return false;
            }
        }
        true
    }

    /// Adds what the proxy refused.
    fn note_refused_hosts(&mut self, zombie: &ZombieSandbox) {
        let proxy = zombie.belongings.proxy.as_ref();
        let refused = proxy.map(EgressProxy::refusals).unwrap_or_default();
        let left = Refusal::MAX.saturating_sub(self.confinement.refusals.len());
        self.confinement
            .refusals
            .extend(refused.into_iter().take(left));
    }

    /// Sends the init an order. If it is gone already, that is what was wanted.
    fn order(&self, order: Order) {
        let _ = wire::send(self.channel.get_ref(), &order, None);
    }

    fn kill_now(&self) {
        let zombie = self.zombie.as_ref();
        if let Some(group) = zombie.and_then(|zombie| zombie.belongings.group.as_ref()) {
            group.hurry();
        }
        match self.grip {
            KillScope::Namespace => {
                let _ = pidfd_send_signal(self.init.get_ref(), Signal::KILL);
            }
            KillScope::Descendants => self.order(Order::End),
        }
    }
}

impl ChildLeader for ConfinedLead {
    type Control = ConfinedReach;

    fn reach(&self) -> Arc<ConfinedReach> {
        Arc::clone(&self.reach)
    }

    async fn ended(&mut self) -> Result<ExitStatus, OpsError> {
        loop {
            while self.status.is_none() && self.hear() {}
            if let Some(status) = self.status {
                return Ok(status);
            }
            let mut ready = self
                .channel
                .readable()
                .await
                .map_err(|_| errno::error(Errno::BADF))?;
            ready.clear_ready();
        }
    }

    async fn terminate(&self) -> Result<(), OpsError> {
        self.order(Order::SignalAll(libc::SIGTERM));
        // A stopped process handles SIGTERM only once it continues.
        self.order(Order::SignalAll(libc::SIGCONT));
        Ok(())
    }

    async fn is_gone(&self) -> Result<bool, OpsError> {
        Ok(is_readable(self.init.get_ref()))
    }

    async fn kill(&self) -> Result<(), OpsError> {
        self.kill_now();
        match timeout(KILL_LIMIT, self.init.readable()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(OpsError::new(
                ErrorKind::Unavailable,
                format!(
                    "a sandbox did not end within {} s of being killed",
                    KILL_LIMIT.as_secs()
                ),
            )),
        }
    }

    fn is_finished(&self) -> bool {
        self.zombie.is_none()
    }

    fn finish_if_alone(&mut self) -> TreeEnd {
        while self.hear() {}
        if self.zombie.is_none() {
            return TreeEnd::Over;
        }
        if !self.alone && !is_readable(self.init.get_ref()) {
            return TreeEnd::MayHaveLeftSome;
        }
        self.finish();
        TreeEnd::Over
    }

    fn finish(&mut self) {
        while self.hear() {}
        self.reach.forget();
        let Some(mut zombie) = self.zombie.take() else {
            return;
        };
        self.watch = zombie.belongings.watch.take();
        self.note_refused_hosts(&zombie);
        let group = zombie.belongings.group.as_ref();
        // A counted limit beats an observed one, if both are available.
        let counted = group.and_then(Cgroup::exceeded);
        self.confinement.exceeded = counted.or(self.confinement.exceeded);
        zombie.reap_in_background();
    }

    async fn confinement(&mut self) -> Confinement {
        while self.hear() {}
        if let Some(watch) = self.watch.take() {
            // If the caller stops waiting, it gets no answer, but the look still happens.
            let moved = blocking(move || Ok(watch.finish())).await;
            // First, because they tell what happened to files.
            let told = &mut self.confinement.refusals;
            told.splice(0..0, moved.unwrap_or_default());
            told.truncate(Refusal::MAX);
        }
        self.confinement.clone()
    }
}

impl Drop for ConfinedLead {
    fn drop(&mut self) {
        self.reach.forget();
        if let Some(watch) = self.watch.take() {
            behind_the_callers_back(move || drop(watch));
        }
        if self.zombie.is_some() {
            self.kill_now();
        }
        if let Some(zombie) = self.zombie.take() {
            zombie.reap_in_background();
        }
    }
}

/// Reaches a sandboxed child from elsewhere, as long as its init lives.
pub(crate) struct ConfinedReach {
    /// Absent once the child has ended, so that nobody keeps the lifeline open.
    channel: Mutex<Option<OwnedFd>>,
    init: OwnedFd,
    command: Option<OwnedFd>,
    mark: String,
}

impl ConfinedReach {
    fn forget(&self) {
        *self.channel.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl ChildControl for ConfinedReach {
    fn signal(&self, signal: Signal) -> Result<(), OpsError> {
        if let Some(command) = &self.command {
            match signal_group(command.as_fd(), signal) {
                Ok(()) | Err(Errno::SRCH) => return Ok(()),
                // An older kernel: the init does it, slightly later.
                Err(_) => {}
            }
        }
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = &*channel {
            let order = Order::SignalGroup(signal.as_raw());
            match wire::send(channel, &order, None) {
                // A child that is already gone is no error.
                Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
                Err(errno) => return Err(errno::error(errno)),
            }
        }
        Ok(())
    }

    fn members(&self) -> Vec<i32> {
        init_id(&self.init)
            .map(|init| ChildTree::new(init, &self.mark).ids())
            .unwrap_or_default()
    }
}

/// The id of an init as this process sees it; `None` once it is gone.
fn init_id(init: &OwnedFd) -> Option<Pid> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", init.as_raw_fd())).ok()?;
    let id = facts.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    let id: i32 = id.trim().parse().ok()?;
    (id > 0).then(|| Pid::from_raw(id)).flatten()
}

/// What remains of a sandbox that has ended or was told to.
struct ZombieSandbox {
    outer: StartedChild,
    grip: KillScope,
    mark: String,
    belongings: CommandResources,
}

impl ZombieSandbox {
    /// Reaps the outer process and removes what belonged to the command, on another thread: the
    /// caller does not wait.
    fn reap_in_background(self) {
        behind_the_callers_back(move || self.reap());
    }

    fn reap(self) {
        // With nothing left to wait for, it ends by itself. If it does not, it is killed, along
        // with whatever of the command can be found.
        if !ends_within(&self.outer.pidfd, KILL_LIMIT) {
            match self.grip {
                KillScope::Namespace => {
                    let _ = pidfd_send_signal(&self.outer.pidfd, Signal::KILL);
                }
                KillScope::Descendants => {
                    if let Err(error) = ChildTree::new(self.outer.pid, &self.mark).kill() {
                        tracing::warn!(%error, "a process outlived its call");
                    }
                }
            }
        }
        self.outer.reap();
        // An init without a namespace that something else killed has ended nothing, and what the
        // command left has no parent of ours any more. Its group knows it still.
        let group = self.belongings.group.as_ref();
        if let Some(group) = group.filter(|group| group.processes() > 0)
            && let Err(error) = group.kill()
        {
            tracing::warn!(%error, "a process outlived its call");
        }
        drop(self.belongings);
    }
}

/// Runs blocking work on a thread that nobody waits for.
fn behind_the_callers_back(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => drop(std::thread::spawn(work)),
    }
}

fn is_readable(descriptor: &OwnedFd) -> bool {
    ends_within(descriptor, Duration::ZERO)
}

fn ends_within(process: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).ok();
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0)
}
