//! One supervisor for each mounted server and credential: starts it when somebody wants something
//! of it, keeps it, ends it when nobody does, and starts it again when it fails, later each time.
//!
//! Nothing that lists ever waits here: what a server offers is at hand from its last run (`offer`).
//! One task owns the connection (`supervisor`); requests go through the `requests`, which knows whose turn it
//! is, what may be asked for and how the server is. A server that hangs, dies or talks nonsense
//! costs its own callers a refusal with the reason, and nobody else anything.

mod backoff;
mod fleet;
mod offer;
mod requests;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
mod turns;
mod withheld;

use std::{sync::Arc, time::Duration};

use haft_contract::{erased::ErasedTool, host::Clock};
use haft_runtime::registry::Registry;
use tokio::sync::broadcast;

use super::connection::{Connect, Server};
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
    /// The id it was given.
    pub server: ServerId,
    /// Whether its tools carry its id.
    pub naming: ToolNaming,
    /// Which of its tools are wanted.
    pub filter: Filter,
    /// What is started or reached, to tell it from another server of that id.
    pub origin: Origin,
    /// Opens connections to it.
    pub connect: Arc<dyn Connect>,
    /// Makes tools of its definitions.
    pub make: Arc<dyn MakeTools>,
    /// Its limits.
    pub options: Options,
}

/// Makes tools of a server's definitions.
pub trait MakeTools: Send + Sync {
    /// The tool a definition describes, or why it cannot be one.
    fn tool(&self, server: &Arc<dyn Server>, item: &Item) -> Result<Arc<dyn ErasedTool>, String>;

    /// Tools beside those the server defines, which no model is shown: they read its resources and
    /// get its prompts. Only asked for what a person accepted.
    fn fetchers(
        &self,
        server: &Arc<dyn Server>,
        offered: &OfferedResources,
    ) -> Vec<Arc<dyn ErasedTool>> {
        let _ = (server, offered);
        Vec::new()
    }

    /// What the server edge calls a resource that the server calls `uri`.
    fn uri(&self, server: &ServerId, uri: &str) -> String {
        let _ = server;
        uri.to_owned()
    }
}

/// The limits of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long it may take until it is ready, its definitions fetched.
    pub start_timeout: Duration,
    /// How long a request may take at most, whatever its call allows.
    pub call_timeout: Duration,
    /// How many requests it is given at a time.
    pub concurrency: usize,
    /// How many more may wait for their turn.
    pub queue: usize,
    /// How long it is kept without being asked anything; none is for ever.
    pub idle: Option<Duration>,
    /// How long it is left alone after a first failure; twice as long after each further one.
    pub first_backoff: Duration,
    /// The longest it is left alone.
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
    /// Wall time, for what people are shown.
    pub clock: Arc<dyn Clock>,
    /// Who is told about changes.
    pub changes: broadcast::Sender<Change>,
}
