//! Server-sent events: what happens in a call, as it happens, and again from where a reader left off.
//!
//! What is on record comes from the record, so it is complete, in order, redacted and never twice; its
//! `id` is its number within the call, and `Last-Event-ID` goes on behind it. What only shows a call at
//! work (progress, output) comes as it happens, without an id, and not again. Read next: `call_stream.rs`.

mod call_stream;
mod change_feed;

pub(crate) use self::{
    call_stream::{EventView, call_events, numbered},
    change_feed::changes_of,
};
