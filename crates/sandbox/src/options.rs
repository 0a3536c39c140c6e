//! The operator's settings for confining children.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use haft_contract::{Masks, ops::Layer};

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
    /// How far to look for what deny rules mask.
    pub masks: MaskLimits,
    /// Where control groups are made, which limit everything a command starts.
    pub cgroup: CgroupSetting,
    /// A directory for this user alone that keeps what a command tried to leave under a protected
    /// name. Best on the same file system as the workspace: otherwise, and without this, such files
    /// are renamed in place.
    pub quarantine: Option<PathBuf>,
    /// The user's runtime directory (`XDG_RUNTIME_DIR`), where sockets are kept if it belongs to
    /// them alone; without it they are in a private directory among temporary files.
    pub runtime: Option<PathBuf>,
    /// The name, in messages, of the setting that lists the hosts a command may reach, and where it
    /// is, if it is not the workspace's setting.
    pub network_setting: Option<String>,
    /// Layers left out, to show which layer stops what. For tests; no configuration sets it.
    pub without: BTreeSet<Layer>,
}

/// How far to look for what deny rules mask, and how much of it to mask for one command. What lies
/// beyond is not masked, and its rules are not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskLimits {
    /// The most places that are masked, with the directories that are held in place for them.
    pub places: usize,
    /// The most entries of a workspace that are looked at.
    pub entries: usize,
    /// The most time spent looking.
    pub time: Duration,
    /// The most patterns.
    pub patterns: usize,
}

impl MaskLimits {
    /// The usual number of places.
    pub const PLACES: usize = 512;

    /// The most places that can be asked for. Bubblewrap takes 9,000 words; a hidden directory
    /// needs eight of them.
    pub const MOST_PLACES: usize = 800;

    /// The usual number of entries.
    pub const ENTRIES: usize = 200_000;

    /// The usual time.
    pub const TIME: Duration = Duration::from_secs(2);

    /// The longest time that can be asked for: every command waits for it.
    pub const MOST_TIME: Duration = Duration::from_mins(1);

    /// The most patterns that can be asked for.
    pub const MOST_PATTERNS: usize = 4096;
}

impl Default for MaskLimits {
    fn default() -> Self {
        Self {
            places: Self::PLACES,
            entries: Self::ENTRIES,
            time: Self::TIME,
            patterns: Masks::MAX_PATTERNS,
        }
    }
}
