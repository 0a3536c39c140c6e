//! Listening to calls: of the whole host, of a conversation, of one call.
//!
//! Nothing is kept here; the runtime has the channels and the record has what a slow reader missed.

use haft_contract::CallId;
use haft_runtime::{EventFilter, HostEvents};

use crate::embedded::Haft;

impl Haft {
    /// The events of every call of this host from now on, of every principal and workspace.
    ///
    /// A slow reader slows no call. What it has no room for is read back from the record, in order;
    /// of progress, output and items it is told how many it missed.
    ///
    /// ```
    /// use haft::{HostEvent, prelude::*};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let haft = Haft::open(workspace.path()).data_dir(data.path()).build().await?;
    /// let mut events = haft.events();
    /// haft.call("list", json!({})).await;
    /// while let Some(event) = events.next().await {
    ///     let HostEvent::Happened(observed) = event else { continue };
    ///     println!("{}: {}", observed.origin.principal.agent, observed.happened.event.kind());
    ///     if let CallEvent::Settled { .. } = observed.happened.event {
    ///         break;
    ///     }
    /// }
    /// # haft.close().await?;
    /// # Ok(()) })
    /// # }
    /// ```
    pub fn events(&self) -> HostEvents {
        self.events_where(EventFilter::host())
    }

    /// The events of this principal's conversation, whichever of its agents makes the calls.
    pub fn events_of_session(&self) -> HostEvents {
        self.events_where(EventFilter::session(self.principal()))
    }

    /// The events of one call. Its id is in the request: [`Haft::request`].
    pub fn events_of_call(&self, call: CallId) -> HostEvents {
        self.events_where(EventFilter::call(call))
    }

    /// The events that a filter lets through.
    pub fn events_where(&self, filter: EventFilter) -> HostEvents {
        self.runtime().events(filter)
    }
}
