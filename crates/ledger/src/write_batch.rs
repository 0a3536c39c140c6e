//! What the writer takes from the queue in one turn.

use std::collections::HashMap;

use haft_contract::ops::FileVersion;

use crate::message::{Message, SeenKey};

/// What the writer takes in one turn.
#[derive(Debug, Default)]
pub(crate) struct WriteBatch {
    /// Each with the bytes to return with [`Queue::release`].
    pub(crate) messages: Vec<(Message, usize)>,
    pub(crate) seen: HashMap<SeenKey, FileVersion>,
    /// Whether somebody may wait for the space of what the writer holds.
    pub(crate) is_full: bool,
}

#[cfg(test)]
impl WriteBatch {
    /// All bytes to return.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().map(|(_, bytes)| bytes).sum()
    }
}
