//! A workspace on the other end of a byte stream: the three operations, served and called.
//!
//! The far side runs the very same [`crate::LocalBackend`] (`serve/`), so every path there is
//! resolved by its kernel beneath a directory it holds, and every child dies with its tree. The
//! near side (`client/`) implements the operations by asking for them. Frames are in `frame.rs`,
//! what they say in `wire.rs`. Must not know how the stream came about: `ssh/` is one way.
//!
//! A lost connection ends everything that ran over it. A call that was under way then fails as
//! unavailable and is never repeated by itself; the next call connects anew.

mod account;
mod client;
mod confinement;
mod connect;
mod convert;
mod credit;
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
