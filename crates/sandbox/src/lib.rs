//! What confines a process and starts it: what a command may see, touch, call and use.
//!
//! A [`SandboxPlan`] is worked out first, purely, from the tier, the workspace and the operator's
//! [`Profile`] (`plan.rs`); one file per mechanism says what it allows (`mounts.rs`, `landlock.rs`,
//! `seccomp.rs`, `limits.rs`, `cgroup/`). Only then is anything started (`launch.rs`), and what confines a
//! command from inside is set up by a helper process (`init.rs`), never between fork and exec of
//! this one. Nothing here lowers a tier: what cannot be set up is an error.
//!
//! `process/` starts children, confined or on the host; `jail.rs` holds the directory they and the
//! files of a back end work in. Must not decide what is allowed: that is policy's job.
#![expect(
    clippy::disallowed_methods,
    reason = "this crate starts processes and looks at the machine, which the others may not"
)]

mod bubblewrap;
mod calls;
pub mod cgroup;
mod detect;
pub mod errno;
mod filter;
pub(crate) mod group_signal;
pub(crate) mod gvisor;
pub mod helper;
pub(crate) mod init;
pub mod jail;
mod landlock;
pub(crate) mod launch;
pub mod limits;
mod mounts;
pub(crate) mod orphans;
pub(crate) mod owner;
mod plan;
pub mod pool;
pub mod private_directory;
pub mod probe;
pub mod process;
mod profile;
pub mod proof;
pub(crate) mod protect;
pub(crate) mod protected_watch;
mod ranges;
pub mod remedy;
pub mod remove;
mod seccomp;
mod spawner;
pub(crate) mod submounts;
pub mod temporary_name;
pub(crate) mod wire;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use haft_contract::{
    ErrorKind,
    ops::{Layer, OpsError, Tier},
};

use self::{
    cgroup::{Cgroup, CgroupError, CgroupParent, CgroupSetting},
    orphans::{Bases, PrivateDirectory, Purpose, RuntimeDirectory},
    protected_watch::{Deep, ProtectedWatch, Quarantine},
};
pub use self::{
    detect::{Facilities, Missing},
    landlock::{ABI_FOR_T1, ABI_FOR_T2, LandlockRule, LandlockRules, May, Tcp, kernel_abi},
    limits::Limits,
    mounts::{Mount, PROXY_SOCKET, reserved},
    plan::{
        Covered, Egress, FileId, Hold, Namespaces, Program, ProtectedPlace, SandboxPlan,
        SandboxRequest, Streams, Workspace,
    },
    profile::{HostView, Profile, SANDBOX_HOME},
    seccomp::{Creating, FilterProgram, SeccompError, SeccompRules, Sockets},
};
use crate::{helper::Helper, jail::Jail};

/// How child processes of a workspace are confined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxOptions {
    /// The program that sets up a sandbox from inside.
    pub helper: Helper,
    /// What a command sees beside its workspace.
    pub profile: Profile,
    /// What it may use of the machine.
    pub limits: Limits,
    /// Where control groups are made, which hold limits for everything a command starts.
    pub cgroup: CgroupSetting,
    /// A directory for this user alone in which things are kept that a command tried to leave under
    /// a protected name. Best on the same file system as the workspace: from another one they are
    /// renamed where they are instead, as they are without this.
    pub quarantine: Option<PathBuf>,
    /// The user's runtime directory (`XDG_RUNTIME_DIR`), where sockets are kept if it belongs to
    /// them alone; without it they are in a private directory beside temporary files.
    pub runtime: Option<PathBuf>,
    /// What the setting that lists the hosts a command may reach is called in messages, where it is
    /// not that of the workspace.
    pub network_setting: Option<String>,
    /// Layers left out, to show which of them stops what. For tests; no configuration sets it.
    pub without: BTreeSet<Layer>,
}

/// What a workspace's sandboxes are made from, looked up once.
#[derive(Debug)]
pub(crate) struct Sandbox {
    facilities: Facilities,
    view: HostView,
    limits: Limits,
    groups: Result<Option<Arc<CgroupParent>>, CgroupError>,
    quarantine: Arc<Quarantine>,
    /// Where private directories are made.
    bases: Bases,
    /// For sockets and the like; made when the first of them is.
    control: OnceLock<Arc<RuntimeDirectory>>,
    /// For files of commands; made when the first of them is.
    files: OnceLock<Arc<RuntimeDirectory>>,
}

impl Sandbox {
    /// Looks at this machine for a workspace.
    pub(crate) fn look(options: &SandboxOptions, root: &Path, temporary: &Path) -> Self {
        let bases = Bases::new(options.runtime.as_deref(), temporary);
        bases.sweep();
        Self {
            facilities: Facilities::look(options, root),
            view: HostView::look(&options.profile),
            limits: options.limits.clone(),
            groups: CgroupParent::detect(&options.cgroup),
            quarantine: Arc::new(quarantine(options)),
            bases,
            control: OnceLock::new(),
            files: OnceLock::new(),
        }
    }

    /// Whether what was found for one workspace holds for another at this root: everything does, but
    /// where the helper lies.
    pub(crate) fn serves(&self, root: &Path) -> bool {
        match &self.facilities.helper {
            Ok(helper) => !helper.starts_with(root),
            Err(missing) => *missing == Missing::Helper,
        }
    }

    /// What this machine has.
    pub(crate) fn facilities(&self) -> &Facilities {
        &self.facilities
    }

    /// What of the profile this machine has.
    pub(crate) fn view(&self) -> &HostView {
        &self.view
    }

    /// The helper.
    pub(crate) fn helper(&self) -> Result<PathBuf, OpsError> {
        self.facilities
            .helper
            .clone()
            .map_err(|missing| unavailable(&[missing]))
    }

    /// Refuses a tier this machine cannot hold.
    pub(crate) fn check(&self, tier: Tier) -> Result<(), OpsError> {
        match self.facilities.missing(tier).as_slice() {
            [] => Ok(()),
            missing => Err(unavailable(missing)),
        }
    }

    /// A directory of one command's own. What a crashed Haft leaves of it is removed by the next.
    pub(crate) fn private_directory(&self, purpose: Purpose) -> Result<PrivateDirectory, OpsError> {
        let cannot = |why: String| OpsError::new(ErrorKind::TierUnavailable, why);
        let place = match purpose {
            Purpose::Control => &self.control,
            Purpose::Files => &self.files,
        };
        let runtime = if let Some(runtime) = place.get() {
            Arc::clone(runtime)
        } else {
            let made = self.bases.open(purpose);
            let made = made.map_err(|error| cannot(error.to_string()))?;
            // Of two made at once, the second goes when it is dropped.
            Arc::clone(place.get_or_init(|| made))
        };
        runtime.make().map_err(|error| {
            let kind = error.kind();
            cannot(format!(
                "a private directory for the command cannot be made: {kind}"
            ))
        })
    }

    /// A watch over a workspace for one command.
    pub(crate) fn watch(
        &self,
        jail: &Arc<Jail>,
        deep: Option<Deep>,
    ) -> Result<ProtectedWatch, OpsError> {
        ProtectedWatch::begin(jail, &self.quarantine, deep).map_err(|error| {
            OpsError::new(
                ErrorKind::TierUnavailable,
                format!(
                    "the workspace cannot be watched for protected names ({}); \
                     `sysctl -w fs.inotify.max_user_instances=1024` allows more watches",
                    error.kind()
                ),
            )
        })
    }

    /// A control group for one command, where they are to be had.
    pub(crate) fn group(&self) -> Result<Option<Cgroup>, OpsError> {
        let fail =
            |error: &CgroupError| OpsError::new(ErrorKind::TierUnavailable, error.to_string());
        match &self.groups {
            Ok(None) => Ok(None),
            Ok(Some(parent)) => parent.create(&self.limits).map(Some).map_err(|e| fail(&e)),
            Err(error) => Err(fail(error)),
        }
    }
}

/// Where things are kept that a command tried to leave under a protected name.
fn quarantine(options: &SandboxOptions) -> Quarantine {
    let opened = options.quarantine.as_deref().map(Quarantine::open);
    opened.and_then(Result::ok).unwrap_or_else(|| {
        if let Some(path) = &options.quarantine {
            tracing::warn!(path = %path.display(), "the quarantine is not private; things are renamed instead");
        }
        Quarantine::default()
    })
}

fn unavailable(missing: &[Missing]) -> OpsError {
    let reasons: Vec<String> = missing.iter().map(|missing| missing.reason()).collect();
    let remedies: Vec<&str> = missing.iter().map(|missing| missing.remedy()).collect();
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!("{} (to do: {})", reasons.join("; "), remedies.join("; ")),
    )
}
