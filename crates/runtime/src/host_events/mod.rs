//! The events of calls for receivers that come and go: of the whole host, of a session, of some
//! calls. Each has a bounded channel of its own (`event_channel.rs`).
//!
//! No call waits for a reader. What finds no room and is on record is not lost: the receiver reads it
//! back from there (`missed_calls.rs`). What only shows a call at work is counted. Read next:
//! `receiver.rs`.

mod filter;
mod listeners;
mod missed_calls;
mod receiver;

pub(crate) use self::listeners::Listeners;
pub use self::{
    filter::EventFilter,
    receiver::{EventsFromRecord, HostEvent, HostEvents, MissedEvents},
};
