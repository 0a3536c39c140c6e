//! The body of a row: the events of a call since its last row, encoded together and once.
//!
//! It is a JSON array with an entry for each event: its kind, the microseconds since the row's time,
//! and its stored form (`row.rs`). A large one is compressed. The row says which, with the version.

use std::{borrow::Cow, io::Write as _};

use haft_contract::host::Timestamp;
use serde_json::Value;

/// The version of what a body says, and how it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Version 1, as text.
    Text,
    /// Version 1, compressed with LZ4, the length before it.
    Compressed,
}

impl Form {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Text => 1,
            Self::Compressed => 2,
        }
    }

    /// The form with this number; `None` for one that a later version wrote.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Text),
            2 => Some(Self::Compressed),
            _ => None,
        }
    }
}

/// Bodies of at least this many bytes are compressed. Smaller ones gain little.
const COMPRESSED_FROM: usize = 1_400;

/// The largest body that is read back.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Events of one call that have no row yet.
#[derive(Debug)]
pub(crate) struct Events {
    bytes: Vec<u8>,
    at: Timestamp,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            at: Timestamp(0),
        }
    }
}

impl Events {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// When the first happened.
    pub(crate) fn at(&self) -> Timestamp {
        self.at
    }

    /// How many bytes they take; also the place where the next begins.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an event, whose stored form `write` adds. Passes on what `write` returns.
    pub(crate) fn push<T>(
        &mut self,
        kind: &str,
        at: Timestamp,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        if self.bytes.is_empty() {
            self.at = at;
            self.bytes.push(b'[');
        } else {
            self.bytes.push(b',');
        }
        // Writing to a `Vec` cannot fail, and a kind is a plain word.
        let _ = write!(
            self.bytes,
            "[\"{kind}\",{},",
            at.0.saturating_sub(self.at.0)
        );
        let written = write(&mut self.bytes);
        self.bytes.push(b']');
        written
    }

    /// Takes out what was added between two places.
    pub(crate) fn remove(&mut self, from: usize, to: usize) {
        if from < to && to <= self.bytes.len() {
            self.bytes.drain(from..to);
        }
        if from == 0 {
            // The next entry was written as one that follows another.
            if let Some(first) = self.bytes.first_mut() {
                *first = b'[';
            }
        }
    }

    /// The body of a row with these events.
    pub(crate) fn body(&self) -> (Form, Vec<u8>) {
        let mut text = Vec::with_capacity(self.bytes.len() + 1);
        text.extend_from_slice(&self.bytes);
        text.push(b']');
        if text.len() < COMPRESSED_FROM {
            return (Form::Text, text);
        }
        let compressed = lz4_flex::compress_prepend_size(&text);
        if compressed.len() < text.len() {
            (Form::Compressed, compressed)
        } else {
            (Form::Text, text)
        }
    }
}

/// An event as it was recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BodyEvent {
    pub(crate) kind: String,
    pub(crate) at: Timestamp,
    pub(crate) body: Value,
}

/// How many bytes the text of a body has, as it says; `None` if it cannot be understood.
pub(crate) fn text_bytes(form: i64, body: &[u8]) -> Option<usize> {
    match Form::from_number(form)? {
        Form::Text => Some(body.len()),
        Form::Compressed => {
            let (length, _) = body.split_first_chunk::<4>()?;
            usize::try_from(u32::from_le_bytes(*length)).ok()
        }
    }
}

/// The text of a body; `None` if it cannot be understood.
pub(crate) fn text(form: i64, body: &[u8]) -> Option<Cow<'_, [u8]>> {
    match Form::from_number(form)? {
        Form::Text => Some(Cow::Borrowed(body)),
        Form::Compressed => {
            let (length, packed) = body.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            if length > MAX_BYTES {
                return None;
            }
            let text = lz4_flex::decompress(packed, length).ok()?;
            Some(Cow::Owned(text))
        }
    }
}

/// The events in the body of a row; `None` if it cannot be understood.
pub(crate) fn events(form: i64, at: Timestamp, body: &[u8]) -> Option<Vec<BodyEvent>> {
    let text = text(form, body)?;
    let entries: Vec<(String, i64, Value)> = serde_json::from_slice(&text).ok()?;
    let event = |(kind, later, body): (String, i64, Value)| BodyEvent {
        kind,
        at: Timestamp(at.0.saturating_add(later)),
        body,
    };
    Some(entries.into_iter().map(event).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(text: &str) -> Events {
        let mut events = Events::default();
        for (kind, at) in [("opened", 100), ("planned", 103), ("settled", 250)] {
            events.push(kind, Timestamp(at), |bytes| {
                bytes.extend_from_slice(json!({ "text": text }).to_string().as_bytes());
            });
        }
        events
    }

    #[test]
    fn events_come_back_as_they_were_however_large() {
        for (text, form) in [("a", Form::Text), (&*"ab ".repeat(2_000), Form::Compressed)] {
            let events = sample(text);
            let (found, body) = events.body();
            assert_eq!(found, form);
            let read = super::events(form.number(), events.at(), &body).unwrap();
            let kinds: Vec<_> = read
                .iter()
                .map(|one| (one.kind.as_str(), one.at.0))
                .collect();
            assert_eq!(kinds, [("opened", 100), ("planned", 103), ("settled", 250)]);
            assert!(read.iter().all(|one| one.body["text"] == *text));
        }
    }

    #[test]
    fn what_is_taken_out_leaves_the_rest_readable() {
        for (from, to, left) in [(0, 1, 2), (1, 2, 2), (2, 3, 2), (0, 3, 0)] {
            let mut places = vec![0];
            let mut events = Events::default();
            for at in 0..3 {
                events.push("kind", Timestamp(at), |bytes| {
                    bytes.extend_from_slice(b"{}");
                });
                places.push(events.len());
            }
            events.remove(places[from], places[to]);
            assert_eq!(events.is_empty(), left == 0);
            if left > 0 {
                let (form, body) = events.body();
                let read = super::events(form.number(), events.at(), &body).unwrap();
                assert_eq!(read.len(), left);
            }
        }
    }

    #[test]
    fn what_another_version_wrote_is_not_guessed() {
        let (_, body) = sample("a").body();
        assert!(events(9, Timestamp(0), &body).is_none());
        assert!(events(2, Timestamp(0), &[0xff; 8]).is_none());
        assert!(events(1, Timestamp(0), b"{").is_none());
    }
}
