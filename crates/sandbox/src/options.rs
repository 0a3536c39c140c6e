//! How the operator has children confined.

use std::{collections::BTreeSet, path::PathBuf};

use haft_contract::ops::Layer;

use crate::{cgroup::CgroupSetting, helper::Helper, limits::Limits, profile::Profile};

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
