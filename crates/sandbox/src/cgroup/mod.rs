//! Limits for a whole tree of processes, enforced by the kernel: one cgroup per command, below a
//! directory that an administrator has handed to this user.
//!
//! [`CgroupParent::detect`] finds what this process may create. [`CgroupParent::create`] makes one
//! group, whose descriptors the command's own process writes `0` to before it becomes the command.
//! This module must not run anything itself, and must not pretend: a controller that is not
//! available is not in [`CgroupParent::controllers`], and a limit that cannot be set is an error.

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
