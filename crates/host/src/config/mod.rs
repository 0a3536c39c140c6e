//! From environment, command line and `haft.toml` to validated settings. Besides `data_dir` and
//! `ancestry`, the only part of this crate that reads variables, and the only one that reads
//! configuration files.
//!
//! Repository content is never configuration: a project's `haft.toml` is read only after its
//! operator ran `haft trust`, which pins its hash ([`trust`]). [`resolve`] says what is read and
//! when.
#![expect(
    clippy::disallowed_methods,
    reason = "reads Haft's own configuration, which no workspace confines"
)]

pub mod approval_places;
pub mod backends;
pub mod catalog;
pub mod client_questions;
mod consequences;
pub mod docker;
pub mod effective;
pub mod env;
pub mod extended_config;
pub mod file;
mod file_text;
#[cfg(test)]
mod fuzz;
pub mod keys;
pub mod launcher;
pub(crate) mod leads_through;
pub mod limits;
pub mod loop_guard;
mod loosened_outside;
pub mod mask_limits;
pub mod mcp;
pub mod oauth;
pub mod pinned_entry;
pub mod recommended;
mod remote;
pub mod resolve;
pub mod sandbox;
pub mod scripts;
pub mod secrets;
pub mod serve;
#[cfg(feature = "databases")]
mod source_facts;
#[cfg(feature = "databases")]
pub(crate) mod sources;
pub mod ssh;
pub mod template;
pub mod timeouts;
pub mod trust;
pub mod trusted_changes;
pub mod undo;
pub mod web_tools;

pub use consequences::Consequences;
pub use env::Env;
pub use resolve::{ConfigPlaces, Settings};

/// The name of a configuration file.
pub const FILE_NAME: &str = "haft.toml";
