//! The tools a runtime offers, as immutable snapshots.
//!
//! Changing the registry builds a new [`Snapshot`] and swaps it in whole, so a call runs against
//! the list that advertised it. Listings are sorted by name, in whatever order tools arrived,
//! because a list that changes order breaks every prompt cache.

mod entry;
pub(crate) mod fixed_arguments;
mod merged_schema;
mod naming;
mod plain_schema;
mod render;
mod search;
mod snapshot;
mod timeouts;
mod words;
mod work;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use haft_contract::{ProviderId, ToolKey, ToolName, erased::ErasedTool};
use tokio::sync::watch;

pub(crate) use self::snapshot::ForeignTool;
pub use self::{
    entry::Entry,
    naming::sanitise,
    render::Format,
    snapshot::{Filter, Snapshot},
    timeouts::Timeouts,
};

/// The most tools one registry holds.
pub const MAX_TOOLS: usize = 200_000;

/// The tools a runtime offers. Cheap to share; readers never wait.
#[derive(Debug)]
pub struct Registry {
    current: ArcSwap<Snapshot>,
    /// Serialises writers, so that no change is lost between reading and swapping.
    changing: Mutex<()>,
    /// Counts changes, for subscribers that announce them.
    changes: watch::Sender<u64>,
    timeouts: Timeouts,
}

/// Why the registry refused a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two providers offer the same name.
    #[error("the tool name `{name}` is offered by both `{first}` and `{second}`")]
    Duplicate {
        /// The name.
        name: ToolName,
        /// The provider that has it.
        first: ProviderId,
        /// The provider that also wants it.
        second: ProviderId,
    },
    /// A provider wants a name or an alias that belongs to a built-in tool.
    #[error("`{provider}` may not shadow the built-in tool `{builtin}` with the name `{name}`")]
    ShadowsBuiltin {
        /// The wanted name.
        name: String,
        /// The built-in it would hide.
        builtin: ToolName,
        /// The provider that wants it.
        provider: ProviderId,
    },
    /// There is no such tool to replace or remove.
    #[error("there is no tool `{0}`")]
    Unknown(ToolKey),
    /// The registry is full.
    #[error("the registry is full ({MAX_TOOLS} tools)")]
    Full,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::with_timeouts(Timeouts::new())
    }

    /// An empty registry whose tools run as long as this says.
    pub fn with_timeouts(timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            current: ArcSwap::from_pointee(Snapshot::empty()),
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// Subscribes to the number of changes so far. A slow listener sees the newest count, which is
    /// all it needs to list again.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The current tools. Keep it for as long as a call or a listing lasts.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Adds a provider's tools, all or none.
    pub fn register(
        &self,
        provider: &ProviderId,
        tools: Vec<Arc<dyn ErasedTool>>,
    ) -> Result<(), RegistryError> {
        let added = tools
            .into_iter()
            .map(|tool| Arc::new(Entry::timed(provider, tool, &self.timeouts)))
            .collect();
        self.change(|current| current.with_added(added))
    }

    /// Replaces a tool of the same provider and name, which must exist.
    pub fn replace(
        &self,
        provider: &ProviderId,
        tool: Arc<dyn ErasedTool>,
    ) -> Result<(), RegistryError> {
        let entry = Arc::new(Entry::timed(provider, tool, &self.timeouts));
        self.change(|current| {
            current
                .without(entry.key())?
                .with_added(vec![Arc::clone(&entry)])
        })
    }

    /// Removes a tool, which must exist.
    pub fn unregister(&self, key: &ToolKey) -> Result<(), RegistryError> {
        self.change(|current| current.without(key))
    }

    /// Replaces a provider's whole list, for providers whose tools change.
    pub fn replace_provider(
        &self,
        provider: &ProviderId,
        tools: Vec<Arc<dyn ErasedTool>>,
    ) -> Result<(), RegistryError> {
        let added: Vec<_> = tools
            .into_iter()
            .map(|tool| Arc::new(Entry::timed(provider, tool, &self.timeouts)))
            .collect();
        self.change(|current| current.without_provider(provider).with_added(added))
    }

    fn change(
        &self,
        next: impl FnOnce(&Snapshot) -> Result<Snapshot, RegistryError>,
    ) -> Result<(), RegistryError> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(&self.current.load())?;
        self.current.store(Arc::new(next));
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}
