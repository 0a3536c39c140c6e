//! Towards agents: Haft as one MCP server, over stdio and Streamable HTTP, in both eras.
//!
//! An [`Endpoint`] is what is served; [`stdio`] and [`http`] serve it. Every request with an effect
//! is a call of the runtime: `connection` turns requests into calls, `wait` waits for a call while
//! its client is asked and notified, `result` turns its outcome into an answer.

mod announce;
pub mod approve;
mod caller;
pub mod capped;
mod connection;
pub mod endpoint;
mod fetched;
pub mod http;
mod leave;
pub mod line;
pub mod live;
mod narrow;
mod output;
mod page;
mod report;
mod result;
pub mod severity;
mod shown;
pub mod stdio;
mod subscriptions;
mod wait;

pub use self::{
    caller::{Caller, Identify},
    endpoint::{Endpoint, SessionScope},
    live::{LiveCall, LiveCalls, Step},
};

/// The largest message a client may send, on a line or as a body.
pub const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
