//! Confining child processes: what a command may see, touch, call and use.
//!
//! A [`SandboxPlan`] is worked out first, purely, from the tier, the workspace and the operator's
//! [`Profile`] (`plan.rs`); one file per mechanism says what it allows (`mounts.rs`, `landlock.rs`,
//! `seccomp.rs`, `limits.rs`, `cgroup/`). Only then is anything started (`launch.rs`), and what confines a
//! command from inside is set up by a helper process (`init.rs`), never between fork and exec of
//! this one. Nothing here lowers a tier: what cannot be set up is an error.

mod calls;
pub mod cgroup;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "begins with the launch of a sandbox")
)]
mod gvisor;
mod landlock;
pub mod limits;
mod mounts;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "begins with the launch of a sandbox")
)]
mod orphans;
mod owner;
mod plan;
pub mod probe;
mod profile;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "begins with the launch of a sandbox")
)]
mod protected_watch;
mod seccomp;

use std::collections::BTreeSet;

use haft_contract::ops::Layer;

use self::cgroup::CgroupSetting;
pub use self::{
    landlock::{ABI_FOR_T1, ABI_FOR_T2, LandlockRule, LandlockRules, May, Tcp, kernel_abi},
    limits::Limits,
    mounts::{Mount, PROXY_SOCKET},
    plan::{
        Egress, FileId, Hold, Namespaces, Program, ProtectedPlace, SandboxPlan, SandboxRequest,
        Streams, Workspace,
    },
    profile::{HostView, Profile, SANDBOX_HOME},
    seccomp::{Creating, Programs, SeccompError, SeccompRules, Sockets},
};
use crate::helper::Helper;

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
    /// Layers left out, to show which of them stops what. For tests; no configuration sets it.
    pub without: BTreeSet<Layer>,
}
