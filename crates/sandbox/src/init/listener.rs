//! Answers the calls that the system call filter hands over, and records what was refused.
//!
//! Every refusal is reported once, however often it happens. Nothing here allows what the filter
//! does not: a call either fails, or it only creates a name and then the kernel decides.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use haft_contract::ops::{Layer, Refusal};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};

use super::{
    attributes::{AttributeChange, Attributes},
    connections::{Destination, destination},
    names::{NameLookup, ProtectedNames, low_half},
};
use crate::{
    calls::{ATTRIBUTES, CREATING, MODES, OPENING, SCHEDULING},
    filter::{self, Call, FilterAnswer},
    landlock::LandlockRules,
    seccomp::{IOPRIO_WHO_PROCESS, MAKES_A_FILE, NATIVE, PRIO_PROCESS, SET_IDS, denied_name},
    wire::RefusalMessage,
};

/// The bit that marks a call of the x32 convention.
const X32: i32 = 0x4000_0000;

/// What network the command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// None, not even a loopback.
    Absent,
    /// Its own, which leads nowhere.
    Own,
    /// Its own, with a way to the proxy.
    Proxied,
}

/// What is checked in addition to the lists of calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListenerWatch<'a> {
    /// Protected names, in the workspace with this root.
    pub(super) names: Option<&'a Path>,
    /// Destinations of connections.
    pub(super) network: Network,
    /// Attributes of files, which may be changed only where these rules allow a change.
    pub(super) attributes: Option<&'a LandlockRules>,
}

/// Receives the filtered calls of one sandbox.
pub(super) struct Listener {
    socket: OwnedFd,
    names: Option<ProtectedNames>,
    network: Network,
    attributes: Option<Attributes>,
    told: BTreeSet<String>,
}

/// How a call is handled.
enum Verdict {
    Answer(FilterAnswer),
    Refuse(Errno, RefusalMessage),
    Kill(RefusalMessage),
}

impl Listener {
    pub(super) fn new(socket: OwnedFd, watch: &ListenerWatch<'_>) -> Self {
        filter::wake_on_the_same_processor(socket.as_fd());
        Self {
            socket,
            names: watch.names.map(ProtectedNames::new),
            network: watch.network,
            attributes: watch
                .attributes
                .map(|rules| Attributes::new(rules.changeable())),
            told: BTreeSet::new(),
        }
    }

    /// Becomes readable when a call waits.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Answers one call. Returns a message if it was refused for the first time.
    pub(super) fn serve(&mut self) -> Result<Option<RefusalMessage>, Errno> {
        let Some(call) = filter::take(self.socket())? else {
            return Ok(None);
        };
        let refusal = match self.judge(&call) {
            Verdict::Answer(answer) => {
                filter::answer(self.socket(), call.id, answer)?;
                return Ok(None);
            }
            Verdict::Refuse(errno, refusal) => {
                filter::answer(self.socket(), call.id, FilterAnswer::Fail(errno))?;
                refusal
            }
            Verdict::Kill(refusal) => {
                self.kill(&call);
                refusal
            }
        };
        Ok(self.is_new(&refusal).then_some(refusal))
    }

    fn judge(&self, call: &Call) -> Verdict {
        if call.architecture != NATIVE || call.number & X32 != 0 {
            return Verdict::Kill(RefusalMessage::new(
                Layer::Seccomp,
                format!("system call {} of another architecture", call.number & !X32),
                "it would bypass the filter; the process was killed",
            ));
        }
        let number = i64::from(call.number);
        if sets_ids(call) {
            return Verdict::Refuse(
                Errno::PERM,
                RefusalMessage::new(
                    Layer::Seccomp,
                    "set a set-user-id or set-group-id bit".to_owned(),
                    "whoever runs the file later would run it as its owner",
                ),
            );
        }
        if let Some(names) = self.names.as_ref().filter(|_| creates(number)) {
            return match names.look(call) {
                NameLookup::Nothing => Verdict::Answer(FilterAnswer::Continue),
                NameLookup::Protected(name) => Verdict::Refuse(
                    Errno::ACCESS,
                    RefusalMessage::new(
                        Layer::Protected,
                        format!("create `{}`", name.escape_debug()),
                        "something outside the sandbox would run or obey it later",
                    ),
                ),
                NameLookup::Unreadable => Verdict::Refuse(
                    Errno::ACCESS,
                    RefusalMessage::new(
                        Layer::Protected,
                        "create a file from a process that hides its memory".to_owned(),
                        "the file cannot be determined",
                    ),
                ),
            };
        }
        if is_of_its_own_threads(call) {
            return Verdict::Answer(FilterAnswer::Continue);
        }
        if ATTRIBUTES.iter().any(|(_, known)| *known == number) {
            return self.judge_attributes(call);
        }
        if number == libc::SYS_connect && self.network != Network::Absent {
            return self.judge_connection(call);
        }
        let family = call.arguments.first().copied().unwrap_or_default();
        if number == libc::SYS_socket && family == u64::from(libc::AF_UNIX.unsigned_abs()) {
            // Almost every program asks name services this way and copes without them.
            return Verdict::Answer(FilterAnswer::Fail(Errno::AFNOSUPPORT));
        }
        match denied_name(number) {
            // As a kernel that does not know the call answers.
            None => Verdict::Answer(FilterAnswer::Fail(Errno::NOSYS)),
            Some(name) => {
                let what = if number == libc::SYS_socket {
                    format!("{name} of family {family}")
                } else {
                    name.to_owned()
                };
                Verdict::Refuse(
                    Errno::PERM,
                    RefusalMessage::new(
                        Layer::Seccomp,
                        what,
                        "the sandbox does not allow this system call",
                    ),
                )
            }
        }
    }

    /// Changes attributes here, or refuses.
    fn judge_attributes(&self, call: &Call) -> Verdict {
        let Some(attributes) = &self.attributes else {
            return Verdict::Answer(FilterAnswer::Continue);
        };
        let waits = || filter::still_waits(self.socket(), call.id);
        match attributes.change(call, waits) {
            AttributeChange::Made(Ok(())) => Verdict::Answer(FilterAnswer::Done),
            AttributeChange::Made(Err(errno)) => Verdict::Answer(FilterAnswer::Fail(errno)),
            AttributeChange::Elsewhere(path) => Verdict::Refuse(
                Errno::PERM,
                RefusalMessage::new(
                    Layer::Seccomp,
                    format!(
                        "change the mode or times of `{}`",
                        path.display().to_string().escape_debug()
                    ),
                    "the command may not change files there",
                ),
            ),
        }
    }

    /// Refuses connections that lead out, as the kernel would, and reports them. A name lookup
    /// finds nobody to ask; that too is because of the sandbox.
    fn judge_connection(&self, call: &Call) -> Verdict {
        let why = match self.network {
            Network::Absent | Network::Own => {
                "the command has no network; the setting `sandbox.network` grants hosts to \
                 commands, and `hosts` in its manifest to a script"
            }
            Network::Proxied => "connections must go through the proxy; this program bypasses it",
        };
        let refusal = |what| RefusalMessage::new(Layer::Egress, what, why);
        match (destination(call), self.network) {
            (Destination::Outside(address), _) => {
                Verdict::Refuse(Errno::NETUNREACH, refusal(format!("connect to {address}")))
            }
            (Destination::Names, Network::Absent | Network::Own) => Verdict::Refuse(
                Errno::CONNREFUSED,
                refusal("look up the name of a host".to_owned()),
            ),
            (Destination::Names, Network::Proxied) | (Destination::Own, _) => {
                Verdict::Answer(FilterAnswer::Continue)
            }
        }
    }

    fn kill(&self, call: &Call) {
        let pid = i32::try_from(call.pid).ok().and_then(Pid::from_raw);
        if filter::still_waits(self.socket(), call.id)
            && let Some(pid) = pid
        {
            // It waits in the call and cannot end before it is answered, so the id still refers to
            // it.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn is_new(&mut self, refusal: &RefusalMessage) -> bool {
        self.told.len() < Refusal::MAX && self.told.insert(refusal.what().to_owned())
    }
}

/// Whether a call would make a set-user-ID or set-group-ID program. The mode is in a register, so
/// nobody can change it after this check.
fn sets_ids(call: &Call) -> bool {
    let number = i64::from(call.number);
    let Some((_, place)) = MODES.iter().find(|(known, _)| *known == number) else {
        return false;
    };
    let argument = |place: u8| {
        let argument = call.arguments.get(usize::from(place));
        argument.copied().unwrap_or_default()
    };
    let opens = OPENING.iter().any(|(_, known)| *known == number);
    let makes = !opens || argument(place - 1) & MAKES_A_FILE != 0;
    makes && argument(*place) & SET_IDS != 0
}

/// Whether a call changes how a thread of the caller's own process is scheduled: programs also
/// refer to themselves by number.
fn is_of_its_own_threads(call: &Call) -> bool {
    let number = i64::from(call.number);
    if !SCHEDULING.iter().any(|(_, known)| *known == number) {
        return false;
    }
    let [first, second, ..] = call.arguments;
    let target = match number {
        libc::SYS_setpriority if first == PRIO_PROCESS => second,
        libc::SYS_ioprio_set if first == IOPRIO_WHO_PROCESS => second,
        libc::SYS_setpriority | libc::SYS_ioprio_set => return false,
        _ => first,
    };
    // Compares thread group leaders: the caller may itself be another thread.
    let leader = |thread: i64| {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("Tgid:"))?;
        line.split_whitespace().nth(1)?.parse::<i64>().ok()
    };
    let own = leader(i64::from(call.pid));
    own.is_some() && own == leader(i64::from(low_half(target)))
}

fn creates(number: i64) -> bool {
    let mut calls = OPENING.iter().chain(CREATING);
    calls.any(|(_, known)| *known == number)
}
