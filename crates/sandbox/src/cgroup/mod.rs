//! Limits for a whole tree of processes, kept by the kernel: a cgroup per command, below a
//! directory that somebody with the right to do so has handed to this user.
//!
//! [`CgroupParent::detect`] finds what this process may create, [`CgroupParent::create`] makes one
//! group, whose descriptors the command's own process writes `0` to before it becomes the command.
//! Must not run anything itself, and must not pretend: a controller that is not to be had is not
//! in [`CgroupParent::controllers`], and a limit that cannot be set is an error.

mod files;
mod group;
mod hierarchy;
mod parent;
mod report;

pub use self::{
    group::Cgroup,
    hierarchy::{Controller, Version},
    parent::{CgroupError, CgroupName, CgroupParent, CgroupSetting, DEFAULT_PARENT},
    report::CgroupReport,
};

#[cfg(test)]
mod tests;
