//! What confines a process and starts it: what a command may see, touch, call and use.
//!
//! A [`SandboxPlan`] is worked out first, purely, from the tier, the workspace and the operator's
//! [`Profile`] (`plan.rs`). One file per mechanism defines what it allows (`mounts.rs`,
//! `landlock.rs`, `seccomp.rs`, `limits.rs`, `cgroup/`). Only then is anything started
//! (`launch.rs`). What confines a command from inside is set up by a helper process (`init/`),
//! never between fork and exec of this one. Nothing here lowers a tier: what cannot be set up is an
//! error.
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
mod find_helper;
pub(crate) mod group_signal;
pub(crate) mod gvisor;
pub mod helper;
mod helper_flag;
pub mod helper_modes;
mod helper_program;
mod home;
pub(crate) mod init;
pub mod jail;
mod landlock;
pub(crate) mod launch;
pub mod limits;
mod linked_trees;
mod loopback;
pub(crate) mod masks;
mod missing_facility;
mod mounts;
mod offline;
mod options;
pub(crate) mod orphans;
mod own_copy;
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
mod readable;
pub mod reader;
pub mod remedy;
pub mod remove;
mod request;
mod seccomp;
mod setup;
mod spawn;
mod spawner;
pub(crate) mod submounts;
pub mod temporary_name;
pub(crate) mod wire;

pub use self::{
    detect::Facilities,
    jail::FileId,
    landlock::{ABI_FOR_T1, ABI_FOR_T2, LandlockRule, LandlockRules, PathRights, Tcp, kernel_abi},
    limits::Limits,
    missing_facility::MissingFacility,
    mounts::{Mount, PROXY_SOCKET, reserved},
    options::{MaskLimits, SandboxOptions},
    plan::{Namespaces, SandboxPlan},
    profile::{HostView, Profile, SANDBOX_HOME},
    request::{
        CoverFile, CoveredMount, Egress, HiddenPlace, Program, ProtectedPlace, ProtectionHold,
        SandboxRequest, Streams, Workspace,
    },
    seccomp::{CreateCalls, FilterProgram, SeccompError, SeccompRules, Sockets},
};
