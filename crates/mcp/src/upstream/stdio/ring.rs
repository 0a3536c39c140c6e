//! The last output of a server.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use crate::upstream::limits::LAST_WORDS_BYTES;

/// A ring buffer of the last bytes.
#[derive(Debug, Default)]
pub(super) struct Ring(Mutex<VecDeque<u8>>);

impl Ring {
    /// Adds bytes and drops the oldest.
    pub(super) fn push(&self, bytes: &[u8]) {
        let start = bytes.len().saturating_sub(LAST_WORDS_BYTES);
        let newest = bytes.get(start..).unwrap_or_default();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (kept.len() + newest.len()).saturating_sub(LAST_WORDS_BYTES);
        let excess = excess.min(kept.len());
        kept.drain(..excess);
        kept.extend(newest);
    }

    /// Drops everything, for a new process.
    pub(super) fn clear(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clear();
    }

    /// The kept bytes as text.
    pub(super) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_kept_and_no_more() {
        let ring = Ring::default();
        ring.push(b"first ");
        ring.push(b"last");
        assert_eq!(ring.text(), "first last");
        ring.push(&vec![b'x'; LAST_WORDS_BYTES - 4]);
        assert_eq!(ring.text().len(), LAST_WORDS_BYTES);
        assert!(ring.text().starts_with("lastxx"));
        ring.push(&vec![b'y'; 3 * LAST_WORDS_BYTES]);
        assert_eq!(ring.text(), "y".repeat(LAST_WORDS_BYTES));
    }
}
