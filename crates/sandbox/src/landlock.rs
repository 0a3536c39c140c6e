//! Which files a command may touch, by Landlock: a second check in addition to the mounts, and the
//! only one in tier T1. The rules are pure data; `apply` puts the calling process under them.
//!
//! Landlock is required, never best effort: a right that this kernel does not know fails the start.
#![expect(
    unsafe_code,
    reason = "the version of Landlock is only available from a system call"
)]

use std::{
    fmt,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath,
    PathFd, RestrictionStatus, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};

use crate::{profile::HostView, request::Workspace};

/// The oldest Landlock that supports tier T1: it keeps signals and abstract sockets inside.
pub const ABI_FOR_T1: i32 = 6;

/// The oldest Landlock that supports tier T2: it allows renames between directories.
pub const ABI_FOR_T2: i32 = 2;

/// What Landlock allows a command. Everything else is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRules {
    /// What may be done beneath which place. A place that does not exist when the command starts is
    /// left out.
    pub places: Vec<LandlockRule>,
    /// TCP, which a command in its own network namespace may use.
    pub tcp: Tcp,
    /// The Landlock version required.
    pub abi: i32,
}

/// What Landlock does about TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tcp {
    /// No restriction.
    Free,
    /// Neither listening nor connecting.
    Denied,
}

/// A place, and what may be done beneath it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// The place.
    pub place: PathBuf,
    /// What may be done there.
    pub may: PathRights,
}

/// What may be done beneath a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathRights {
    /// Read and execute.
    Read,
    /// Read, and write to what exists: devices, and settings of a process.
    WriteExisting,
    /// Everything but making devices.
    Change,
}

impl LandlockRules {
    /// The places where everything may be changed.
    pub(super) fn changeable(&self) -> impl Iterator<Item = &Path> {
        self.places
            .iter()
            .filter(|rule| rule.may == PathRights::Change)
            .map(|rule| rule.place.as_path())
    }
}

/// Files of `/proc` that reveal nothing about anybody's processes.
const MACHINE_FACTS: [&str; 11] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/fs",
    "/proc/sys/kernel",
    "/proc/sys/vm",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
];

/// The devices a command may use where `/dev` is the machine's own.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// The rules of tier T2: the mounts decide what is visible, and only some of it may be changed.
pub(super) fn behind_mounts(view: &HostView, workspace: &Workspace, home: &Path) -> LandlockRules {
    let mut places = vec![
        rule("/", PathRights::Read),
        rule("/proc", PathRights::WriteExisting),
        rule("/dev", PathRights::WriteExisting),
        rule("/dev/shm", PathRights::Change),
        rule("/tmp", PathRights::Change),
        rule(home, PathRights::Change),
    ];
    places.extend(
        view.writable
            .iter()
            .map(|place| rule(place, PathRights::Change)),
    );
    places.push(rule(&workspace.root, PathRights::Change));
    LandlockRules {
        places,
        tcp: Tcp::Free,
        abi: ABI_FOR_T2,
    }
}

/// The rules of tier T1: nothing hides the machine, so every place is listed.
pub(super) fn alone(view: &HostView, workspace: &Workspace, private: &PathBuf) -> LandlockRules {
    let mut places: Vec<LandlockRule> = Vec::new();
    let readable = view
        .directories
        .iter()
        .chain(view.settings.iter())
        .chain(view.toolchains.iter())
        .chain(view.caches.iter())
        .chain(view.read_only.iter());
    places.extend(readable.map(|place| rule(place, PathRights::Read)));
    let accounts = ["/etc/passwd", "/etc/group", "/etc/hosts"];
    places.extend(accounts.map(|place| rule(place, PathRights::Read)));
    places.extend(MACHINE_FACTS.map(|place| rule(place, PathRights::Read)));
    places.extend(DEVICES.map(|place| rule(place, PathRights::WriteExisting)));
    places.extend(
        view.writable
            .iter()
            .map(|place| rule(place, PathRights::Change)),
    );
    places.push(rule(private, PathRights::Change));
    places.push(rule(&workspace.root, PathRights::Change));
    LandlockRules {
        places,
        tcp: Tcp::Denied,
        abi: ABI_FOR_T1,
    }
}

/// The Landlock version of this kernel; `None` if it has none or it is switched off.
pub fn kernel_abi() -> Option<i32> {
    /// `LANDLOCK_CREATE_RULESET_VERSION`: makes nothing, returns the version.
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no pointer and touches no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    i32::try_from(version).ok().filter(|version| *version > 0)
}

/// Puts this process, and everything it starts, under the rules permanently.
pub(super) fn apply(rules: &LandlockRules) -> Result<(), LandlockError> {
    let kernel = kernel_abi().unwrap_or(0);
    if kernel < rules.abi {
        return Err(LandlockError::TooOld {
            kernel,
            needed: rules.abi,
        });
    }
    let abi = ABI::from(kernel.min(NEWEST_ABI));
    let all = AccessFs::from_all(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?;
    match rules.tcp {
        Tcp::Free => {}
        Tcp::Denied => ruleset = ruleset.handle_access(AccessNet::from_all(abi))?,
    }
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    let mut created = ruleset.create()?;
    for rule in &rules.places {
        // A place may be missing: a removed toolchain, a device this machine does not have.
        let Ok(place) = PathFd::new(&rule.place) else {
            continue;
        };
        let mut access = rule.may.access(all);
        if !is_directory(&place) {
            access &= AccessFs::from_file(abi);
        }
        created = created.add_rule(PathBeneath::new(place, access))?;
    }
    match created.restrict_self()? {
        RestrictionStatus {
            ruleset: RulesetStatus::FullyEnforced,
            no_new_privs: true,
            ..
        } => Ok(()),
        _ => Err(LandlockError::Partial),
    }
}

/// The newest version whose rights this code knows.
const NEWEST_ABI: i32 = 7;

/// Landlock could not be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum LandlockError {
    #[error("this kernel has Landlock version {kernel}, and version {needed} is needed")]
    TooOld { kernel: i32, needed: i32 },
    #[error("Landlock was applied only in part")]
    Partial,
    #[error("Landlock cannot be applied: {0}")]
    Rules(#[from] RulesetError),
}

impl PathRights {
    fn access(self, all: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let access = match self {
            Self::Read => read,
            Self::WriteExisting => {
                read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
            }
            Self::Change => all & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        };
        access & all
    }
}

impl fmt::Display for PathRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read, execute",
            Self::WriteExisting => "read, write",
            Self::Change => "change",
        })
    }
}

fn rule(place: impl Into<PathBuf>, may: PathRights) -> LandlockRule {
    LandlockRule {
        place: place.into(),
        may,
    }
}

fn is_directory(place: &PathFd) -> bool {
    use std::os::fd::AsFd as _;
    rustix::fs::fstat(place.as_fd()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}
