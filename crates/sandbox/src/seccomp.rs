//! Which system calls a command may make: an allowlist per tier.
//!
//! A call that is not on the list, or that uses a foreign calling convention, is not simply denied:
//! it is handed to the init (`SECCOMP_RET_USER_NOTIF`), which records it, so that the outcome can
//! say truthfully what was refused. Calls that ordinary programs only try and then do without fail
//! silently. This file decides; `filter.rs` installs.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use haft_contract::ops::Tier;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::{
    calls::{
        ALLOWED, ATTRIBUTES, CONDITIONAL, CONNECTING, CREATING, DENIED, MODES, OPENING,
        OWN_NAMESPACES, PAIRED_SOCKETS, SCHEDULING, SILENT,
    },
    ranges::{self, Instruction, RETURN},
};

/// What the filter lets a command do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeccompRules {
    /// Which sockets it may make.
    pub sockets: Sockets,
    /// Whether calls that create names are checked first.
    pub creating: CreateCalls,
}

/// Which sockets a command may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sockets {
    /// Only pairs of connected Unix sockets.
    Pairs,
    /// Unix and Internet sockets, and querying routes: in its own network namespace.
    OwnNetwork,
}

/// Whether calls that create names are checked before they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CreateCalls {
    /// They are allowed without a check.
    Unwatched,
    /// The init checks whether the name is protected.
    Watched,
}

/// The compiled filter: instructions as the kernel reads them, eight bytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterProgram(pub(super) Arc<[u64]>);

/// The filter could not be built.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the system call filter cannot be built: {0}")]
pub struct SeccompError(String);

/// The calling convention this program is built for.
#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE: u32 = 0xc000_00b7;
#[cfg(target_arch = "riscv64")]
pub(super) const NATIVE: u32 = 0xc000_00f3;

/// The longest program the kernel accepts.
const MAX_INSTRUCTIONS: usize = 4096;

/// Marks the places where a call is handed over until the compiler has run, which does not support
/// that action.
const HAND_OVER: u32 = 0x4a54;

impl SeccompRules {
    /// The rules of a tier.
    pub fn of(tier: Tier, creating: CreateCalls) -> Self {
        let sockets = match tier {
            Tier::T2 | Tier::T3 => Sockets::OwnNetwork,
            Tier::Host | Tier::T1 | Tier::InProcess => Sockets::Pairs,
        };
        Self { sockets, creating }
    }

    /// How many calls are allowed, with or without conditions.
    pub fn allowed(self) -> usize {
        let allowed = |verdict: &&u32| **verdict == libc::SECCOMP_RET_ALLOW;
        let plain = self.verdicts().values().filter(allowed).count();
        plain + self.conditional().len()
    }

    /// The compiled filter, cached for the process.
    pub fn program(self) -> Result<FilterProgram, SeccompError> {
        static COMPILED: [OnceLock<Result<FilterProgram, SeccompError>>; 4] =
            [const { OnceLock::new() }; 4];
        let index = match (self.sockets, self.creating) {
            (Sockets::Pairs, CreateCalls::Unwatched) => 0,
            (Sockets::Pairs, CreateCalls::Watched) => 1,
            (Sockets::OwnNetwork, CreateCalls::Unwatched) => 2,
            (Sockets::OwnNetwork, CreateCalls::Watched) => 3,
        };
        match COMPILED.get(index) {
            Some(slot) => slot.get_or_init(|| self.compile()).clone(),
            None => self.compile(),
        }
    }

    fn compile(self) -> Result<FilterProgram, SeccompError> {
        let mut table = Table::new();
        for (number, rules) in self.conditional() {
            let rules = rules.into_iter().map(Conditions::rule);
            table.insert(number, rules.collect::<Result<_, _>>()?);
        }
        let conditional = handing_over(&compile(table)?);
        let program = ranges::before(&self.verdicts(), NATIVE, &conditional);
        if program.len() > MAX_INSTRUCTIONS {
            return Err(broken("it is too long"));
        }
        Ok(FilterProgram(program.into_iter().map(packed).collect()))
    }

    /// The verdicts for calls that do not depend on arguments.
    fn verdicts(self) -> BTreeMap<u32, u32> {
        let mut verdicts = BTreeMap::new();
        let mut add = |calls: &[(&str, i64)], verdict: u32| {
            let numbers = calls
                .iter()
                .filter_map(|(_, number)| u32::try_from(*number).ok());
            verdicts.extend(numbers.map(|number| (number, verdict)));
        };
        add(ALLOWED, libc::SECCOMP_RET_ALLOW);
        add(PAIRED_SOCKETS, libc::SECCOMP_RET_ALLOW);
        match self.sockets {
            Sockets::Pairs => {}
            Sockets::OwnNetwork => {
                add(OWN_NAMESPACES, libc::SECCOMP_RET_ALLOW);
                add(ATTRIBUTES, libc::SECCOMP_RET_ALLOW);
                add(SCHEDULING, libc::SECCOMP_RET_ALLOW);
            }
        }
        match self.creating {
            CreateCalls::Unwatched => {
                add(CREATING, libc::SECCOMP_RET_ALLOW);
                add(OPENING, libc::SECCOMP_RET_ALLOW);
            }
            CreateCalls::Watched => {}
        }
        add(
            SILENT,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        );
        // Calls that take a mode depend on it.
        for (number, _) in MODES {
            if let Ok(number) = u32::try_from(*number) {
                verdicts.remove(&number);
            }
        }
        verdicts
    }

    /// When a call that takes a mode is simply allowed: never with a set-user-ID or set-group-ID
    /// bit, and not where the init checks it first.
    fn with_mode(self, number: i64, mode: u8) -> Vec<Conditions> {
        let in_list = |calls: &[(&str, i64)]| calls.iter().any(|(_, known)| *known == number);
        let harmless = (mode, SeccompCmpOp::MaskedEq(SET_IDS), 0);
        if in_list(ATTRIBUTES) {
            return match self.sockets {
                Sockets::Pairs => Vec::new(),
                Sockets::OwnNetwork => vec![Conditions(vec![harmless])],
            };
        }
        if !in_list(OPENING) {
            return match self.creating {
                CreateCalls::Unwatched => vec![Conditions(vec![harmless])],
                CreateCalls::Watched => Vec::new(),
            };
        }
        // The flags come before the mode, which matters only if a file is created.
        let without = |bits| (mode - 1, SeccompCmpOp::MaskedEq(bits), 0);
        let mut rules = vec![Conditions(vec![without(MAKES_A_FILE)])];
        rules.push(match self.creating {
            CreateCalls::Unwatched => Conditions(vec![harmless]),
            CreateCalls::Watched => Conditions(vec![without(CREATES), harmless]),
        });
        rules
    }

    /// Calls whose verdict depends on their arguments.
    fn conditional(self) -> Vec<(i64, Vec<Conditions>)> {
        let unix = u64::from(libc::AF_UNIX.unsigned_abs());
        let family = |family: libc::c_int| argument(0, u64::from(family.unsigned_abs()));
        let mut rules = vec![
            // No new namespace of any kind.
            (libc::SYS_clone, vec![without_bits(0, NEW_NAMESPACES)]),
            // Only querying the personality, and setting the plain one.
            (
                libc::SYS_personality,
                vec![argument(0, 0), argument(0, 0xffff_ffff)],
            ),
            // Injecting input into a terminal, for whoever reads it next.
            (
                libc::SYS_ioctl,
                vec![neither(1, libc::TIOCSTI, libc::TIOCLINUX)],
            ),
            (libc::SYS_socketpair, vec![argument(0, unix)]),
            // Its own limits; lowering those of another process could kill it, or the init.
            (libc::SYS_prlimit64, vec![argument(0, 0)]),
            // Name, dumpability, parent death and the like; not memory maps or security state.
            (
                libc::SYS_prctl,
                HARMLESS_PRCTL
                    .iter()
                    .map(|option| argument(0, *option))
                    .collect(),
            ),
        ];
        match self.sockets {
            // The process itself; the init finds out whether another number is one of its threads.
            Sockets::Pairs => rules.extend(SCHEDULING.iter().map(|(_, number)| {
                let itself = match *number {
                    libc::SYS_setpriority => both((0, PRIO_PROCESS), (1, 0)),
                    libc::SYS_ioprio_set => both((0, IOPRIO_WHO_PROCESS), (1, 0)),
                    _ => argument(0, 0),
                };
                (*number, vec![itself])
            })),
            Sockets::OwnNetwork => rules.push((
                libc::SYS_socket,
                vec![
                    family(libc::AF_UNIX),
                    family(libc::AF_INET),
                    family(libc::AF_INET6),
                    both(
                        (0, u64::from(libc::AF_NETLINK.unsigned_abs())),
                        (2, u64::from(libc::NETLINK_ROUTE.unsigned_abs())),
                    ),
                ],
            )),
        }
        rules.extend(MODES.iter().filter_map(|(number, mode)| {
            let rules = self.with_mode(*number, *mode);
            (!rules.is_empty()).then_some((*number, rules))
        }));
        rules
    }
}

/// The bits of a mode that make a program run as its owner or its group.
pub(super) const SET_IDS: u64 = (libc::S_ISUID | libc::S_ISGID) as u64;

/// The flag that creates a file with a name, and those that create a file at all.
const CREATES: u64 = libc::O_CREAT as u64;
pub(super) const MAKES_A_FILE: u64 =
    (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;

/// Says that a number names a process, for `setpriority` and for `ioprio_set`.
pub(super) const PRIO_PROCESS: u64 = libc::PRIO_PROCESS as u64;
pub(super) const IOPRIO_WHO_PROCESS: u64 = 1;

/// Every flag of `clone` that makes a namespace.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | 0x80) as u64;

/// What a program may change about itself.
const HARMLESS_PRCTL: [u64; 24] = [
    libc::PR_SET_PDEATHSIG as u64,
    libc::PR_GET_PDEATHSIG as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_SET_DUMPABLE as u64,
    libc::PR_GET_KEEPCAPS as u64,
    libc::PR_GET_TIMING as u64,
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_GET_SECCOMP as u64,
    libc::PR_SET_SECCOMP as u64,
    libc::PR_CAPBSET_READ as u64,
    libc::PR_GET_SECUREBITS as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_GET_TIMERSLACK as u64,
    libc::PR_SET_CHILD_SUBREAPER as u64,
    libc::PR_GET_CHILD_SUBREAPER as u64,
    libc::PR_SET_NO_NEW_PRIVS as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_GET_TID_ADDRESS as u64,
    libc::PR_SET_THP_DISABLE as u64,
    libc::PR_GET_THP_DISABLE as u64,
    libc::PR_CAP_AMBIENT as u64,
    libc::PR_GET_SPECULATION_CTRL as u64,
    // `PR_SET_VMA`: names for memory, set by allocators.
    0x5356_4d41,
];

type Table = BTreeMap<i64, Vec<SeccompRule>>;

/// Conditions on arguments, all of which must hold.
struct Conditions(Vec<(u8, SeccompCmpOp, u64)>);

impl Conditions {
    /// The kernel treats every argument checked here as 32 bits wide, whatever is in the upper half
    /// of the register.
    fn rule(self) -> Result<SeccompRule, SeccompError> {
        let conditions = self.0.into_iter().map(|(index, operator, value)| {
            SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
        });
        let conditions = conditions.collect::<Result<_, _>>().map_err(broken)?;
        SeccompRule::new(conditions).map_err(broken)
    }
}

fn argument(index: u8, value: u64) -> Conditions {
    Conditions(vec![(index, SeccompCmpOp::Eq, value)])
}

fn both(first: (u8, u64), second: (u8, u64)) -> Conditions {
    let equal = |(index, value)| (index, SeccompCmpOp::Eq, value);
    Conditions(vec![equal(first), equal(second)])
}

fn neither(index: u8, first: u64, second: u64) -> Conditions {
    let unequal = |value| (index, SeccompCmpOp::Ne, value);
    Conditions(vec![unequal(first), unequal(second)])
}

fn without_bits(index: u8, bits: u64) -> Conditions {
    Conditions(vec![(index, SeccompCmpOp::MaskedEq(bits), 0)])
}

/// Allows calls whose arguments meet the conditions, and marks all others.
fn compile(table: Table) -> Result<BpfProgram, SeccompError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(broken)?;
    let marked = SeccompAction::Trace(HAND_OVER);
    SeccompFilter::new(table, marked, SeccompAction::Allow, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(broken)
}

/// Turns the marked places into handing over, and also the kill that the compiler emits for a
/// foreign calling convention: the init kills the process then, and can report why.
fn handing_over(program: &BpfProgram) -> Vec<Instruction> {
    let marked = libc::SECCOMP_RET_TRACE | HAND_OVER;
    let handed = |value| value == marked || value == libc::SECCOMP_RET_KILL_PROCESS;
    program
        .iter()
        .map(|instruction| Instruction {
            code: instruction.code,
            if_true: instruction.jt,
            if_false: instruction.jf,
            value: match instruction.k {
                value if instruction.code == RETURN && handed(value) => {
                    libc::SECCOMP_RET_USER_NOTIF
                }
                value => value,
            },
        })
        .collect()
}

/// An instruction as the kernel reads it.
fn packed(instruction: Instruction) -> u64 {
    let [code_low, code_high] = instruction.code.to_ne_bytes();
    let [a, b, c, d] = instruction.value.to_ne_bytes();
    u64::from_ne_bytes([
        code_low,
        code_high,
        instruction.if_true,
        instruction.if_false,
        a,
        b,
        c,
        d,
    ])
}

fn broken(error: impl std::fmt::Display) -> SeccompError {
    SeccompError(error.to_string())
}

/// The name of a call that is refused and reported. A call without a name here is answered as by a
/// kernel that does not know it: programs that try something new then fall back to something old.
pub(super) fn denied_name(number: i64) -> Option<&'static str> {
    DENIED
        .iter()
        .chain(OWN_NAMESPACES)
        .chain(CONDITIONAL)
        .chain(CONNECTING)
        .chain(SCHEDULING)
        .find(|(_, known)| *known == number)
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(Sockets, CreateCalls); 4] = [
        (Sockets::Pairs, CreateCalls::Unwatched),
        (Sockets::Pairs, CreateCalls::Watched),
        (Sockets::OwnNetwork, CreateCalls::Unwatched),
        (Sockets::OwnNetwork, CreateCalls::Watched),
    ];

    #[test]
    fn every_kind_compiles_and_is_short() {
        for (sockets, creating) in KINDS {
            let rules = SeccompRules { sockets, creating };
            let length = rules.program().unwrap().0.len();
            assert!(length < 800, "{length}");
        }
    }

    #[test]
    fn no_call_is_both_allowed_and_denied_and_none_is_decided_twice() {
        for (sockets, creating) in KINDS {
            let rules = SeccompRules { sockets, creating };
            let verdicts = rules.verdicts();
            for (name, number) in DENIED {
                assert!(
                    !verdicts.contains_key(&u32::try_from(*number).unwrap()),
                    "{name}"
                );
            }
            for (number, _) in rules.conditional() {
                assert!(
                    !verdicts.contains_key(&u32::try_from(number).unwrap()),
                    "{number}"
                );
            }
            for (name, number) in SILENT {
                let verdict = verdicts[&u32::try_from(*number).unwrap()];
                assert_ne!(verdict, libc::SECCOMP_RET_ALLOW, "{name}");
            }
        }
    }

    #[test]
    fn a_foreign_calling_convention_is_handed_over_and_nothing_is_left_marked() {
        let rules = SeccompRules::of(Tier::T2, CreateCalls::Watched);
        let program = rules.program().unwrap().0;
        let returns: std::collections::BTreeSet<u32> = program
            .iter()
            .filter(|instruction| instruction.to_ne_bytes()[0] == 0x06)
            .map(|instruction| {
                let bytes = instruction.to_ne_bytes();
                u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
            })
            .collect();
        assert_eq!(
            returns,
            [
                libc::SECCOMP_RET_ALLOW,
                libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
                libc::SECCOMP_RET_USER_NOTIF
            ]
            .into()
        );
    }
}
