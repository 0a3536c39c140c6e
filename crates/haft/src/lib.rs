//! Haft for embedders: one builder, one prelude, and the formats in which models call tools.
//!
//! [`Haft::open`] combines the parts: the local back end, the record, a policy, the
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

mod apart;
mod asker;
mod builder;
mod closures;
mod elsewhere;
mod embedded;
pub mod error;
mod events;
mod foreseen;
mod host;
pub mod model;
pub mod prelude;
mod question;
#[cfg(feature = "sandbox")]
pub mod sandbox;
mod turn;
#[cfg(feature = "sandbox")]
mod undo;

/// The vocabulary and the traits every part of Haft agrees on.
#[doc(inline)]
pub use haft_contract as contract;
#[doc(inline)]
pub use haft_contract::tool_fn::{Cx, FnTool, tool_fn};
/// Registry and pipeline.
pub use haft_runtime as runtime;

#[cfg(feature = "containers")]
pub use self::elsewhere::Container;
#[cfg(feature = "ssh")]
pub use self::elsewhere::Ssh;
#[cfg(feature = "sandbox")]
pub use self::undo::PERSON;
pub use self::{
    builder::{HaftBuilder, HostBuilder, ManyWorkspaces, SingleWorkspace},
    elsewhere::WorkspaceLocation,
    embedded::Haft,
    host::{Host, WorkspaceHandle},
    question::{AlwaysScope, Question, QuestionError},
    turn::{Turn, TurnAnswers, TurnCall, TurnItem},
};
/// Commands are sandboxed by a helper process. A program that uses its own executable as the helper
/// calls [`helper::exit_if_asked`] first in `main`.
#[cfg(feature = "sandbox")]
pub use haft_backends::helper;
/// How a workspace that is not on this machine behaves.
#[cfg(any(feature = "containers", feature = "ssh"))]
pub use haft_backends::remote::RemoteOptions;
#[cfg(feature = "sandbox")]
pub use haft_backends::{ChangeOptions, LocalBackend, LocalOptions};
#[cfg(feature = "mcp")]
pub use haft_host::McpServer;
pub use haft_host::rules::{AgentRules, PolicyTexts, RulesInCode, SessionRules};
#[cfg(feature = "sandbox")]
pub use haft_host::undo::Undone;
pub use haft_host::{FirstAnswer, HostError, HostErrorKind, HostPolicy, platform_data_dir};
#[cfg(feature = "webhook")]
pub use haft_host::{Webhook, WebhookError, WebhookKey};
pub use haft_ledger::{Recovery, StoredLedger};
pub use haft_policy::{CedarPolicy, Finding, LoadError, PolicySource, Preset, explain, notation};
pub use haft_runtime::{
    CallStage, DryRun, EventFilter, EventsFromRecord, HostEvent, HostEvents, InFlightCall, Limits,
    MissedEvents, Runtime, ShutdownReport,
};
#[cfg(feature = "sandbox")]
pub use haft_tools::{builtins, factory, script};
/// Stops the calls of a [`Turn`].
pub use tokio_util::sync::CancellationToken;

/// A record in a database of your own: the traits, and the tables.
pub mod store {
    pub use haft_ledger::{
        SCHEMA,
        store::{
            Cell, Connection, FromCell, Lock, NamedStore, OpenError, Order, Row, Scope, Store,
            StoreError, TextSearch, Value,
        },
    };
}

/// The README's quick start, compiled and run.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The checklist for tools, whose test is compiled here and run by `just package`.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../docs/adding-a-tool.md")]
struct AddingATool;
