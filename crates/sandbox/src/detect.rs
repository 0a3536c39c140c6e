//! Which tiers this machine supports, as far as can be told without starting anything. What fails
//! only when a command starts is an error there and never a weaker sandbox.

use std::path::{Path, PathBuf};

use haft_contract::ops::Tier;

use crate::{
    bubblewrap, gvisor,
    helper::HelperProgram,
    landlock::{ABI_FOR_T1, ABI_FOR_T2, kernel_abi},
    options::SandboxOptions,
    orphans::BaseDirectories,
    process::ProcessOptions,
};

/// What this machine has for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facilities {
    /// The program that sets up a sandbox from inside.
    pub helper: Result<PathBuf, MissingFacility>,
    /// Bubblewrap, and a kernel that lets it make namespaces.
    pub bubblewrap: Result<PathBuf, MissingFacility>,
    /// gVisor, and, for an ordinary user, a kernel that lets it make namespaces.
    pub gvisor: Result<PathBuf, MissingFacility>,
    /// The version of Landlock.
    pub landlock: Option<i32>,
    /// Whether system calls can be filtered and handed over.
    pub seccomp: Result<(), MissingFacility>,
}

/// Something a tier needs and this machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFacility {
    /// No program that answers as a helper.
    Helper,
    /// The helper lies in the workspace, where a command could replace it.
    HelperInWorkspace,
    /// No private directory from which the helper's copy can be started.
    PlaceForHelper,
    /// Bubblewrap is not installed where only root could have put it.
    Bubblewrap,
    /// gVisor is not installed where only root could have put it.
    Gvisor,
    /// The kernel does not let users make user namespaces.
    UserNamespaces,
    /// The kernel's Landlock is absent or too old.
    Landlock {
        /// The version found.
        found: i32,
        /// The version needed.
        needed: i32,
    },
    /// The kernel cannot hand system calls over to a supervisor.
    Seccomp,
}

impl MissingFacility {
    /// What is missing, as a sentence without a full stop.
    pub fn reason(self) -> String {
        match self {
            Self::Helper => {
                "this program does not set up sandboxes, and none that does is installed".to_owned()
            }
            Self::HelperInWorkspace => {
                "the program that sets up sandboxes lies in the workspace".to_owned()
            }
            Self::PlaceForHelper => {
                "no program can be started from the directory for temporary files, where the program \
                 that sets up sandboxes is copied to"
                    .to_owned()
            }
            Self::Bubblewrap => "bubblewrap is not installed".to_owned(),
            Self::Gvisor => "gVisor's `runsc` is not installed".to_owned(),
            Self::UserNamespaces => "this kernel does not let users create namespaces".to_owned(),
            Self::Landlock { found: 0, needed } => {
                format!("this kernel has no Landlock, and version {needed} is needed")
            }
            Self::Landlock { found, needed } => {
                format!("this kernel has Landlock version {found}, and version {needed} is needed")
            }
            Self::Seccomp => "this kernel cannot filter system calls".to_owned(),
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Helper => {
                "add the line `haft::helper::exit_if_asked();` as the first of a `main` that is not \
                 `async`, before any thread is started; or, for tests, have a `haft` of the same \
                 version on `PATH`, or name it in `HAFT_HELPER`"
            }
            Self::HelperInWorkspace => "name a helper outside the workspace",
            Self::PlaceForHelper => {
                "install this program where only root can replace it, as in `/usr/local/bin`, or mount \
                 `/tmp` or the user's runtime directory without `noexec`"
            }
            Self::Bubblewrap => "apt-get install bubblewrap",
            Self::Gvisor => "apt-get install runsc",
            Self::UserNamespaces => {
                "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 \
                 kernel.apparmor_restrict_unprivileged_userns=0"
            }
            Self::Landlock { .. } => {
                "boot with `lsm=landlock,…`, or use a newer kernel (5.19 for T2, 6.12 for T1)"
            }
            Self::Seccomp => "use a kernel with CONFIG_SECCOMP_FILTER, 5.19 or newer",
        }
    }
}

impl Facilities {
    /// Finds out what this machine has for a workspace.
    pub fn look(options: &SandboxOptions, root: &Path) -> Self {
        let temporary = ProcessOptions::default().temporary;
        let bases = BaseDirectories::new(options.runtime.as_deref(), Path::new(&temporary));
        Self::with_helper(options, root, &bases).0
    }

    /// As [`Self::look`], with the helper, whose copy is removed with it.
    pub(crate) fn with_helper(
        options: &SandboxOptions,
        root: &Path,
        bases: &BaseDirectories,
    ) -> (Self, Option<HelperProgram>) {
        let found = options.helper.for_workspace(root, bases);
        let helper = found.as_ref().map(|found| found.path().to_owned());
        let helper = helper.map_err(|missing| *missing);
        let bubblewrap = match bubblewrap::find() {
            None => Err(MissingFacility::Bubblewrap),
            Some(_) if !allows_user_namespaces() => Err(MissingFacility::UserNamespaces),
            Some(program) => Ok(program),
        };
        let gvisor = match bubblewrap::roots_own(&gvisor::PLACES) {
            None => Err(MissingFacility::Gvisor),
            Some(_) if !allows_user_namespaces() => Err(MissingFacility::UserNamespaces),
            Some(program) => Ok(program),
        };
        let facilities = Self {
            helper,
            bubblewrap,
            gvisor,
            landlock: kernel_abi(),
            seccomp: if hands_over_calls() {
                Ok(())
            } else {
                Err(MissingFacility::Seccomp)
            },
        };
        (facilities, found.ok())
    }

    /// What a tier lacks; empty if it is available.
    pub fn missing(&self, tier: Tier) -> Vec<MissingFacility> {
        let landlock = |needed| {
            let found = self.landlock.unwrap_or(0);
            (found < needed).then_some(MissingFacility::Landlock { found, needed })
        };
        let helper = self.helper.as_ref().err().copied();
        let seccomp = self.seccomp.err();
        let bubblewrap = self.bubblewrap.as_ref().err().copied();
        let gvisor = self.gvisor.as_ref().err().copied();
        let missing = match tier {
            Tier::Host | Tier::InProcess => [None; 4],
            Tier::T3 => [helper, gvisor, None, None],
            Tier::T1 => [helper, landlock(ABI_FOR_T1), seccomp, None],
            Tier::T2 => [helper, bubblewrap, landlock(ABI_FOR_T2), seccomp],
        };
        missing.into_iter().flatten().collect()
    }

    /// The tiers that are available, the default first, the host last.
    pub fn tiers(&self) -> Vec<Tier> {
        let confined = [Tier::T2, Tier::T1, Tier::T3]
            .into_iter()
            .filter(|tier| self.missing(*tier).is_empty());
        confined.chain([Tier::Host]).collect()
    }
}

/// Whether the kernel's settings let an ordinary user make a user namespace.
fn allows_user_namespaces() -> bool {
    let is_zero = |setting: &str| {
        std::fs::read_to_string(Path::new("/proc/sys").join(setting))
            .is_ok_and(|value| value.trim() == "0")
    };
    Path::new("/proc/self/ns/user").exists()
        && !is_zero("user/max_user_namespaces")
        && (!is_zero("kernel/unprivileged_userns_clone") || rustix::process::geteuid().is_root())
}

/// Whether the kernel supports the filter action that our filters rely on.
fn hands_over_calls() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok_and(|actions| {
        actions
            .split_whitespace()
            .any(|action| action == "user_notif")
    })
}
