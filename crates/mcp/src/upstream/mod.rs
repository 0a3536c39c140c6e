//! The side that faces MCP servers: Haft as their client, and their tools as Haft's.
//!
//! ```text
//!  tool ──▶ Server (supervise) ──▶ Connection ◀── session ──▶ wire ◀── stdio, http
//! ```

mod asker;
pub mod auth;
pub mod authorize;
pub mod connection;
pub mod fetch;
mod form;
pub mod http;
pub mod limits;
pub mod mounted;
pub mod owner;
mod result;
mod session;
pub mod stdio;
pub mod supervise;
pub mod tool;
pub mod uri;
mod wire;

pub use self::{session::ClientIntroduction, wire::DroppedMessages};
