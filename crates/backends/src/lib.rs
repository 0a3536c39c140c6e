//! Files, processes and search, for real. The only crate that opens files or spawns processes for
//! tools.
//!
//! [`LocalBackend`] serves a workspace on this machine: every path is resolved beneath a directory
//! held open (`jail.rs`), every child has an environment built from empty and dies with its tree.
//! It must not decide what is allowed: that is policy's job, before a call gets here. Start with
//! `local/mod.rs`; `jail.rs` holds what confines files.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the one crate meant to touch the operating system"
)]

pub mod egress;
mod errno;
pub mod helper;
mod jail;
mod local;
mod private_directory;
mod protected;
pub mod remote;
pub mod sandbox;
mod scripts;
pub mod ssh;

pub use jail::Mounts;
pub use local::{ChangeOptions, DRAIN_LIMIT, LocalBackend, LocalOptions, OpenError};
pub use scripts::{
    MAX_MANIFEST_BYTES, MAX_PROGRAM_BYTES, MAX_SCRIPTS, ScriptError, ScriptFile, load_scripts,
};
