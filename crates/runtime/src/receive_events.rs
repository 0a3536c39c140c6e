//! A runtime's events for whoever asks for them. Read next: `host_events/`.

use std::sync::Arc;

use crate::{
    event_channel::EVENTS_HELD,
    host_events::{EventFilter, HostEvents},
    runtime::Runtime,
};

impl Runtime {
    /// Listens to calls from now on, with room for [`EVENTS_HELD`] events.
    pub fn events(&self, filter: EventFilter) -> HostEvents {
        self.events_held(filter, EVENTS_HELD)
    }

    /// Listens to calls from now on, with room for this many events.
    pub fn events_held(&self, filter: EventFilter, holds: usize) -> HostEvents {
        let ledger = Arc::clone(&self.engine.ledger);
        HostEvents::listen(&self.engine.listeners, ledger, filter, holds)
    }
}
