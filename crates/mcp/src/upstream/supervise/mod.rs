//! One supervisor for each mounted server and credential: starts the server on demand, keeps it,
//! ends it when idle, and restarts it with growing delays when it fails.
//!
//! Listing never waits here: a server's offer is available from its last run (`offer`). One task
//! owns the connection (`supervisor`); callers go through `requests`, which knows whose turn it is,
//! what may be requested and the server's state. A server that hangs, dies or talks nonsense costs
//! its own callers a refusal with the reason, and nobody else anything.

mod backoff;
mod fleet;
mod offer;
mod requests;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
mod turns;

use std::{sync::Arc, time::Duration};

use haft_contract::{erased::ErasedTool, host::Clock};
use haft_runtime::registry::Registry;
use tokio::sync::broadcast;

use super::{
    connection::{Connect, Server},
    owner::CredentialOwner,
};
use crate::{
    mounts::Change,
    name::{ServerId, ToolNaming},
    pin::{Filter, Item, Origin, Store},
};

pub use self::{
    fleet::{Fleet, FleetError, UnseenServer},
    offer::{Counts, OfferedResources},
    state::{State, Status},
};

/// A server with one credential, as an operator configured it.
pub struct Mount {
    /// The configured id.
    pub server: ServerId,
    /// Whether its tools' names carry its id.
    pub naming: ToolNaming,
    /// Which of its tools to offer.
    pub filter: Filter,
    /// What is started or reached, to distinguish it from another server with that id.
    pub origin: Origin,
    /// Whose credential `connect` uses, and so whose calls it serves.
    pub owner: CredentialOwner,
    /// Opens connections to it.
    pub connect: Arc<dyn Connect>,
    /// Makes tools from its definitions.
    pub make: Arc<dyn MakeTools>,
    /// Its limits.
    pub options: Options,
}

/// Makes tools from a server's definitions.
pub trait MakeTools: Send + Sync {
    /// The tool for a definition, or why there cannot be one.
    fn tool(&self, server: &Arc<dyn Server>, item: &Item) -> Result<Arc<dyn ErasedTool>, String>;

    /// Tools in addition to those the server defines, not shown to models: they read its resources
    /// and get its prompts. Only called for what a person accepted.
    fn fetchers(
        &self,
        server: &Arc<dyn Server>,
        offered: &OfferedResources,
    ) -> Vec<Arc<dyn ErasedTool>> {
        let _ = (server, offered);
        Vec::new()
    }

    /// The server edge's name for the resource the server calls `uri`.
    fn uri(&self, server: &ServerId, uri: &str) -> String {
        let _ = server;
        uri.to_owned()
    }
}

/// The limits of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long it may take until it is ready, with its definitions fetched.
    pub start_timeout: Duration,
    /// The longest a request may take, whatever its call allows.
    pub call_timeout: Duration,
    /// How many requests it handles at a time.
    pub concurrency: usize,
    /// How many more may wait for their turn.
    pub queue: usize,
    /// How long it is kept without requests; none means forever.
    pub idle: Option<Duration>,
    /// The delay after a first failure; it doubles with each further one.
    pub first_backoff: Duration,
    /// The longest delay after a failure.
    pub longest_backoff: Duration,
    /// How long to wait for more changes before definitions are fetched again.
    pub debounce: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            start_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(10),
            concurrency: 8,
            queue: 64,
            idle: Some(Duration::from_mins(10)),
            first_backoff: Duration::from_millis(500),
            longest_backoff: Duration::from_mins(5),
            debounce: Duration::from_millis(250),
        }
    }
}

/// What all supervisors of a host share.
#[derive(Clone)]
pub struct SupervisorDefaults {
    /// What servers offered and what was accepted.
    pub store: Arc<dyn Store>,
    /// Where tools are registered.
    pub registry: Arc<Registry>,
    /// Wall time, for display.
    pub clock: Arc<dyn Clock>,
    /// Announces changes.
    pub changes: broadcast::Sender<Change>,
}
