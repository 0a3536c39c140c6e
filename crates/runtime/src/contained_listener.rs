//! A listener whose panic stays with it: what a call does and how it ends never depends on who
//! watches.
//!
//! A listener that panicked gets no further events. It may have left its own state half changed, and
//! would otherwise panic and be logged for every event of every call from then on. The record misses
//! nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_contract::event::{EventSink, RecordedEvent};

/// A listener of the host, skipped once it has panicked.
pub(crate) struct ContainedListener {
    listener: Arc<dyn EventSink>,
    panicked: AtomicBool,
}

impl ContainedListener {
    pub(crate) fn new(listener: Arc<dyn EventSink>) -> Self {
        Self {
            listener,
            panicked: AtomicBool::new(false),
        }
    }
}

impl EventSink for ContainedListener {
    fn happened(&self, happened: &RecordedEvent) {
        if self.panicked.load(Ordering::Relaxed) {
            return;
        }
        let told = catch_unwind(AssertUnwindSafe(|| self.listener.happened(happened)));
        // Calls run side by side: several may meet the panic, and one logs it.
        if told.is_err() && !self.panicked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                call = %happened.call,
                event = happened.event.kind(),
                "a listener panicked and gets no further events"
            );
        }
    }
}
