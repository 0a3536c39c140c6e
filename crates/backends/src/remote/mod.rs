//! A workspace on the other end of a byte stream: the three operations, served and called.
//!
//! The far side runs the same [`crate::LocalBackend`] (`serve/`), so its kernel resolves every path
//! there beneath a directory it holds, and every child dies with its tree. The near side
//! (`client/`) implements the operations by sending requests. Frames are in `frame.rs`, their
//! contents in `wire.rs`. Must not know where the stream comes from: `ssh/` is one way.
//!
//! A lost connection ends everything that ran over it. A call in progress then fails as unavailable
//! and is never repeated automatically; the next call connects anew.

mod account;
mod client;
mod confinement;
mod connect;
mod convert;
mod credit;
#[cfg(test)]
mod flow;
mod frame;
#[cfg(test)]
mod fuzz;
mod outbox;
mod serve;
mod stdio;
pub(crate) mod supervise;
mod wire;

pub(crate) use frame::{MAGIC, MAX_PREAMBLE_BYTES};

pub use account::Account;
pub use client::RemoteBackend;
pub use confinement::{RemoteLimits, RemoteSandbox, Toolchains};
pub use connect::{Carrier, Connect, ConnectError, Connection, RemoteOptions};
pub use serve::{ServeError, serve};
