//! From environment, command line and `haft.toml` to settings that cannot be wrong. The only part
//! of the program that reads variables and configuration files.
//!
//! Repository content is never configuration: a project's `haft.toml` is read only after its
//! operator ran `haft trust`, which pins its hash ([`trust`]). [`resolve`] says what is read when.
#![expect(
    clippy::disallowed_methods,
    reason = "reads Haft's own configuration, which no workspace confines"
)]

pub(crate) mod ancestry;
pub(crate) mod asking;
pub(crate) mod catalog;
pub(crate) mod env;
pub(crate) mod failures;
pub(crate) mod file;
pub(crate) mod foreign;
#[cfg(test)]
mod fuzz;
pub(crate) mod installed;
pub(crate) mod launcher;
pub(crate) mod limits;
pub(crate) mod logins;
pub(crate) mod loop_guard;
pub(crate) mod mcp;
pub(crate) mod oauth;
pub(crate) mod pinned;
pub(crate) mod pins;
pub(crate) mod private;
pub(crate) mod resolve;
pub(crate) mod running;
pub(crate) mod sandbox;
pub(crate) mod scripts;
pub(crate) mod secrets;
pub(crate) mod ssh;
pub(crate) mod template;
pub(crate) mod trust;
pub(crate) mod undo;

pub(crate) use env::Env;
pub(crate) use resolve::{Places, Settings};

/// The name of a configuration file.
pub(crate) const FILE_NAME: &str = "haft.toml";
