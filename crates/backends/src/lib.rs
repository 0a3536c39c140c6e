//! Implements the operations of a workspace: files, search and changes on this machine, and all of
//! them over SSH, in a container or over a byte stream.
//!
//! [`LocalBackend`] serves a workspace on this machine: every path is resolved beneath a directory
//! held open (the jail of `haft-sandbox`, which also starts the processes). It must not decide what
//! is allowed: that is policy's job, before a call gets here. Start with `local/mod.rs`.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the one crate that touches the operating system"
)]

mod client_program;
pub mod container;
pub mod helper;
mod local;
mod notification;
mod protected;
pub mod remote;
mod scripts;
pub mod ssh;

pub use local::{ChangeOptions, LocalBackend, LocalOptions, OpenError};
pub use notification::{Notification, NotifySend};
pub use scripts::{
    MAX_MANIFEST_BYTES, MAX_PROGRAM_BYTES, MAX_SCRIPTS, ScriptError, ScriptFile, load_scripts,
};
