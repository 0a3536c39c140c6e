//! The event stream of a hostile server.

use haft_testkit::{Fuzz, ParseOutcome};

use super::sse::{Decoder, Event, EventError};
use crate::upstream::limits::REOPEN;

const STREAMS: [&str; 6] = [
    "event: message\nid: 7\ndata: {\"a\":1}\n\n",
    ": keep-alive\n\ndata: a\ndata: b\n\nretry: 99999999\nid: 1\n\n",
    "data\n\ndata:\n\ndata:  two\r\n\r\n",
    "id\nretry: 5\ndata: x\n\nid: a\0b\ndata: y\n\n",
    "data: cut off\n",
    "\u{feff}data: a\n\n",
];

const WORDS: [&str; 16] = [
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    "data: ",
    "data:",
    "data",
    "id: ",
    "id:",
    "retry: ",
    "event: x\n",
    ":",
    " ",
    "\0",
    "+5",
    "x: y\n",
];

fn events<'b>(chunks: impl Iterator<Item = &'b [u8]>) -> (Vec<Event>, Result<(), EventError>) {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for chunk in chunks {
        let pushed = decoder.push(chunk, &mut events);
        if pushed.is_err() {
            return (events, pushed);
        }
    }
    (events, Ok(()))
}

#[test]
fn events_of_an_mcp_server_are_the_same_however_they_are_cut() {
    Fuzz::seeds(STREAMS).words(WORDS).longest(512).run(|bytes| {
        let whole = events(std::iter::once(bytes));
        for size in [1, 2, 7] {
            assert_eq!(events(bytes.chunks(size)), whole, "in pieces of {size}");
        }
        let (events, end) = whole;
        for event in &events {
            assert_ne!(*event, Event::default(), "an event that carries nothing");
            assert!(event.retry.is_none_or(|retry| retry <= REOPEN));
            let id = event.id.as_deref().unwrap_or_default();
            assert!(!id.contains(['\0', '\n']), "{id:?}");
        }
        let data: usize = events.iter().map(|event| event.data.len()).sum();
        assert!(data <= bytes.len(), "more data than bytes");
        if end == Err(EventError::NotText) {
            assert!(str::from_utf8(bytes).is_err());
        }
        if events.is_empty() {
            ParseOutcome::Refused
        } else {
            ParseOutcome::Taken
        }
    });
}
