//! A place among the statements that run in a source at a time.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

/// A place. Whoever works for the statement keeps a copy, and it is free for another statement when
/// the last one is gone: not when the caller was told, but when the work has really ended.
#[derive(Debug, Clone)]
pub(crate) struct StatementSlot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl StatementSlot {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self {
            _permit: Arc::new(permit),
        }
    }
}
