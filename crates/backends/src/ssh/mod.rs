//! A workspace on another machine, over SSH.
//!
//! The user's own `ssh` program makes the connection, so that `~/.ssh/config`, the agent and jump
//! hosts work; it never prompts and never accepts an unknown host key. On the other machine runs
//! Haft's own helper (`remote/`), which is uploaded once (`upload.rs`, `client_program/`). The command line is
//! constant: no path, argument or byte of a call is ever on it, everything is sent in frames. Must
//! not fall back to anything less: no helper, no workspace.
//!
//! Without the feature `ssh` there are only the settings, so that a configuration can still be read.

#[cfg(feature = "ssh")]
mod backend;
#[cfg(feature = "ssh")]
mod connect;
mod destination;
#[cfg(feature = "ssh")]
mod diagnose;
mod options;
#[cfg(feature = "ssh")]
mod program;
#[cfg(feature = "ssh")]
mod upload;

#[cfg(feature = "ssh")]
pub use self::backend::SshBackend;
pub use self::{
    destination::{Destination, DestinationError},
    options::{SshOptions, SshOptionsError},
};

/// What a machine's back end is called in plans and in the record.
pub fn ssh_id(destination: &Destination) -> String {
    format!("ssh:{}", destination.host())
}
