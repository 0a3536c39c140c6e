//! The operator's settings for confining children.

use std::{collections::BTreeSet, path::PathBuf};

use haft_contract::ops::Layer;

use crate::{cgroup::CgroupSetting, helper::Helper, limits::Limits, profile::Profile};

/// How child processes of a workspace are confined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxOptions {
    /// The program that sets up a sandbox from inside.
    pub helper: Helper,
    /// What a command sees in addition to its workspace.
    pub profile: Profile,
    /// How much of the machine it may use.
    pub limits: Limits,
    /// Where control groups are made, which limit everything a command starts.
    pub cgroup: CgroupSetting,
    /// A directory for this user alone that keeps what a command tried to leave under a protected
    /// name. Best on the same file system as the workspace: otherwise, and without this, such files
    /// are renamed in place.
    pub quarantine: Option<PathBuf>,
    /// The user's runtime directory (`XDG_RUNTIME_DIR`), where sockets are kept if it belongs to
    /// them alone; without it they are in a private directory among temporary files.
    pub runtime: Option<PathBuf>,
    /// The name, in messages, of the setting that lists the hosts a command may reach, if it is not
    /// the workspace's setting.
    pub network_setting: Option<String>,
    /// Layers left out, to show which layer stops what. For tests; no configuration sets it.
    pub without: BTreeSet<Layer>,
}
