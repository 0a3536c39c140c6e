//! The built-in tools, one file each.
//!
//! Tools are written only against the contract's traits: nothing here opens a file, starts a
//! process or reads a clock of the machine, so every tool runs unchanged on any back end. What a
//! tool does *not* do is as important: no timeouts, no approval, no truncation of output, no
//! audit; those are stages of the runtime.
//!
//! Read next: [`catalog`] for the list, any file under [`files`] for what a tool looks like,
//! [`factory`] for tools from configuration, [`script`] for tools without Rust.
//!
//! ```
//! let names: Vec<String> = haft_tools::catalog::builtins()
//!     .iter()
//!     .map(|tool| tool.name().to_string())
//!     .collect();
//! assert!(names.contains(&"read".to_owned()));
//! ```

pub mod catalog;
pub mod change;
pub mod data;
pub mod factory;
pub mod files;
pub mod memory;
pub mod output;
pub mod process;
pub mod script;
pub mod search;
pub mod session;
pub mod undo;
pub mod web;

mod foreign;
mod text;

pub use catalog::builtins;
