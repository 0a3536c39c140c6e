//! Answers the calls that the system call filter hands over, and notes what was refused.
//!
//! Every refusal is told once, however often it happens. Nothing here allows what the filter does
//! not: a call either fails or is one that only creates a name, and then the kernel decides.

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

use super::names::{Found, Names};
use crate::sandbox::{
    calls::{CREATING, OPENING},
    filter::{self, Answer, Call},
    seccomp::{NATIVE, denied_name},
    wire::RefusalMessage,
};

/// The bit that marks a call of the x32 convention.
const X32: i32 = 0x4000_0000;

/// Who answers.
pub(super) struct Listener {
    socket: OwnedFd,
    names: Option<Names>,
    told: BTreeSet<String>,
}

/// What becomes of a call.
enum Verdict {
    Answer(Answer),
    Refuse(Errno, RefusalMessage),
    Kill(RefusalMessage),
}

impl Listener {
    pub(super) fn new(socket: OwnedFd, root: Option<&Path>) -> Self {
        filter::wake_on_the_same_processor(socket.as_fd());
        Self {
            socket,
            names: root.map(Names::new),
            told: BTreeSet::new(),
        }
    }

    /// What becomes readable when a call waits.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Answers one call. Returns what to tell, if it was refused and that is new.
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
                filter::answer(self.socket(), call.id, Answer::Fail(errno))?;
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
                "it would pass by the filter; the process was killed",
            ));
        }
        let number = i64::from(call.number);
        if let Some(names) = self.names.as_ref().filter(|_| creates(number)) {
            return match names.look(call) {
                Found::Nothing => Verdict::Answer(Answer::Continue),
                Found::Protected(name) => Verdict::Refuse(
                    Errno::ACCESS,
                    RefusalMessage::new(
                        Layer::Protected,
                        format!("create `{}`", name.escape_debug()),
                        "something outside the sandbox would run or obey it later",
                    ),
                ),
                Found::Unreadable => Verdict::Refuse(
                    Errno::ACCESS,
                    RefusalMessage::new(
                        Layer::Protected,
                        "create a file from a process that hides its memory".to_owned(),
                        "which file it is cannot be told",
                    ),
                ),
            };
        }
        let family = call.arguments.first().copied().unwrap_or_default();
        if number == libc::SYS_socket && family == u64::from(libc::AF_UNIX.unsigned_abs()) {
            // Name services are asked this way by every second program, which then does without.
            return Verdict::Answer(Answer::Fail(Errno::AFNOSUPPORT));
        }
        match denied_name(number) {
            // As a kernel answers that never knew it.
            None => Verdict::Answer(Answer::Fail(Errno::NOSYS)),
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

    fn kill(&self, call: &Call) {
        let pid = i32::try_from(call.pid).ok().and_then(Pid::from_raw);
        if filter::still_waits(self.socket(), call.id)
            && let Some(pid) = pid
        {
            // It waits in the call and cannot end before it is answered, so the id means it.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn is_new(&mut self, refusal: &RefusalMessage) -> bool {
        self.told.len() < Refusal::MAX && self.told.insert(refusal.what().to_owned())
    }
}

fn creates(number: i64) -> bool {
    let mut calls = OPENING.iter().chain(CREATING);
    calls.any(|(_, known)| *known == number)
}
