//! Confining what a command can reach and use: `limits.rs` has the numbers, `cgroup/` keeps them for
//! a whole tree of processes.

pub mod cgroup;
pub mod limits;
mod owner;
