//! Which tiers this machine supports, as far as can be told without starting anything. What fails
//! only when a command starts is an error there and never a weaker sandbox.

use std::path::{Path, PathBuf};

use haft_contract::ops::Tier;

use crate::{
    bubblewrap, gvisor,
    helper_program::HelperProgram,
    landlock::{ABI_FOR_T1, ABI_FOR_T2, kernel_abi},
    missing_facility::MissingFacility,
    options::SandboxOptions,
    orphans::{BaseDirectories, TEMPORARY},
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

impl Facilities {
    /// Finds out what this machine has for a workspace.
    pub fn look(options: &SandboxOptions, root: &Path) -> Self {
        let bases = BaseDirectories::new(options.runtime.as_deref(), Path::new(TEMPORARY));
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

    /// What whoever wrote the program can do for the tiers that are missing.
    pub fn programs_remedy(&self) -> Option<&'static str> {
        self.helper.as_ref().err().map(|missing| missing.remedy())
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
