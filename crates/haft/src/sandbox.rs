//! How commands are confined: the options of [`LocalOptions::sandbox`](crate::LocalOptions::sandbox)
//! and what they are made of.

pub use haft_sandbox::{
    Limits, MaskLimits, Profile, SandboxOptions, cgroup::CgroupSetting, jail::Mounts,
};

/// The program that sets up sandboxes.
pub mod helper {
    pub use haft_sandbox::helper::Helper;
}
