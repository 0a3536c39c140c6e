//! Decodes server-sent events from bytes, bounded in size.

use std::time::Duration;

use crate::upstream::limits::{MESSAGE_BYTES, REOPEN};

/// An event that carries something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    /// Its data lines, joined.
    pub(super) data: String,
    /// Its id, if the stream can be resumed after it.
    pub(super) id: Option<String>,
    /// How long to wait before resuming.
    pub(super) retry: Option<Duration>,
}

/// Splits bytes into events.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    unfinished: Vec<u8>,
    event: Event,
    has_data: bool,
}

/// An event is too large, or is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventError {
    TooLarge,
    NotText,
}

impl Decoder {
    /// Takes bytes and adds every event that is now complete.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        events: &mut impl Extend<Event>,
    ) -> Result<(), EventError> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let (head, tail) = rest.split_at(at);
            rest = tail.get(1..).unwrap_or_default();
            self.keep(head)?;
            let line = std::mem::take(&mut self.unfinished);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            let line = std::str::from_utf8(line).map_err(|_| EventError::NotText)?;
            if let Some(event) = self.line(line)? {
                events.extend([event]);
            }
        }
        self.keep(rest)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventError> {
        if self.unfinished.len() + bytes.len() > MESSAGE_BYTES {
            return Err(EventError::TooLarge);
        }
        self.unfinished.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes one line; returns the event it completes, if any.
    fn line(&mut self, line: &str) -> Result<Option<Event>, EventError> {
        if line.is_empty() {
            self.has_data = false;
            let event = std::mem::take(&mut self.event);
            return Ok((event != Event::default()).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.event.data.len() + value.len() > MESSAGE_BYTES {
                    return Err(EventError::TooLarge);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => {
                let milliseconds = value.parse().map(Duration::from_millis).ok();
                self.event.retry = milliseconds.map(|retry| retry.min(REOPEN));
            }
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<Event> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk.as_bytes(), &mut events).unwrap();
        }
        events
    }

    #[test]
    fn an_event_is_whole_however_it_was_cut() {
        let whole = events(&["event: message\nid: 7\ndata: {\"a\":1}\n\n"]);
        let cut = events(&[
            "event: mess",
            "age\r\nid: 7\r\nda",
            "ta: {\"a\":1}\r\n\r",
            "\n",
        ]);
        assert_eq!(whole, cut);
        assert_eq!(whole[0].data, "{\"a\":1}");
        assert_eq!(whole[0].id.as_deref(), Some("7"));
    }

    #[test]
    fn comments_are_nothing_and_lines_are_joined() {
        let got = events(&[": keep-alive\n\ndata: a\ndata: b\n\nretry: 99999999\nid: 1\n\n"]);
        assert_eq!(got.len(), 2);
        assert_eq!(got[0].data, "a\nb");
        assert_eq!(got[1].retry, Some(REOPEN));
        assert_eq!(got[1].data, "");
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut decoder = Decoder::default();
        let chunk = format!("data: {}\n", "x".repeat(1024 * 1024));
        let mut events = Vec::new();
        let mut pushed = 0;
        while decoder.push(chunk.as_bytes(), &mut events).is_ok() {
            pushed += 1;
            assert!(pushed <= 16);
        }
        assert!(events.is_empty());
    }
}
