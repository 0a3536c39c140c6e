//! Haft for embedders: one builder, one prelude, and the formats in which models call tools.
//!
//! [`Haft::open`] combines the parts: the local back end, the record on SQLite, a policy, the
//! built-in tools and yours. [`model`] turns a provider's tool calls into requests and outcomes
//! into the messages it expects. This crate adds no stage and no rule: every call goes through
//! [`Runtime`].
//!
//! ```
//! use haft::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! let haft = Haft::open(workspace.path()).data_dir(data.path()).build().await?;
//!
//! // Reading is allowed by the preset `careful`; this file is not there, and the answer says so.
//! let outcome = haft.call("read", json!({"path": "notes.txt"})).await;
//! assert_eq!(outcome.terminal, Terminal::Failed);
//!
//! // Writing asks, and nobody is there to be asked.
//! let outcome = haft.call("write", json!({"path": "notes.txt", "content": "hello"})).await;
//! assert_eq!(outcome.terminal, Terminal::Denied);
//! # haft.close().await?;
//! # Ok(()) })
//! # }
//! ```
//!
//! Read next: the repository's README for writing your own tool, [`contract`] for the vocabulary.

mod builder;
mod closures;
mod embedded;
mod host;
pub mod model;
pub mod prelude;

/// The vocabulary and the traits every part of Haft agrees on.
pub use haft_contract as contract;
/// Registry and pipeline.
pub use haft_runtime as runtime;

pub use self::{
    builder::{HaftBuilder, HostBuilder, ManyWorkspaces, SingleWorkspace},
    embedded::Haft,
    host::{Host, WorkspaceHandle},
};
/// Commands are sandboxed by a helper process. A program that uses its own executable as the helper
/// calls [`helper::exit_if_asked`] first in `main`.
pub use haft_backends::helper;
pub use haft_backends::{LocalBackend, LocalOptions};
pub use haft_host::{
    FirstAnswer, HostError, HostErrorKind, HostPolicy, McpServer, Webhook, WebhookError,
    WebhookKey, platform_data_dir,
};
pub use haft_ledger::{Recovery, StoredLedger};
pub use haft_policy::{CedarPolicy, Finding, LoadError, PolicySource, Preset};
pub use haft_runtime::{CallStage, InFlightCall, Limits, Runtime, ShutdownReport};
pub use haft_sandbox as sandbox;
pub use haft_tools::{builtins, factory, script};

/// The README's quick start, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
