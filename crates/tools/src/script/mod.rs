//! Tools without Rust: an executable and a small manifest.
//!
//! A script reads its input as JSON on standard input and prints its result, as JSON or as text, on
//! standard output. Lines on file descriptor 3 are progress. It is planned, checked, sandboxed and
//! recorded like every other command. [`manifest`] says what a script declares, [`tool`] runs it.
//! Loading folders from disk and hashing programs is the back ends' job.

pub mod manifest;
pub mod names;
pub mod tool;

mod output;
pub(crate) mod redact;

pub use manifest::{ManifestError, ScriptHosts, ScriptManifest};
pub use tool::{ScriptSource, ScriptTool};
