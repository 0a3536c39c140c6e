//! MCP on both edges. Towards agents, Haft is one MCP server ([`server`]). Towards MCP servers, it
//! is their client ([`upstream`]), and their tools are treated like any other: planned, decided,
//! approved, recorded.
//!
//! This is the only crate that names `rmcp`. Its types stay inside; what crosses a module boundary
//! here is JSON in the protocol's form, or a type of `contract`. Nothing here opens files or starts
//! processes: a server's process is started by the back end.
//!
//! ```text
//!  agent ──▶ server ──▶ Runtime::call ──▶ upstream::tool ──▶ connection ──▶ MCP server
//!               ▲                              │
//!               └── client: questions, logs ◀──┘
//! ```

pub mod catalog;
pub mod client;
mod definitions;
pub mod foreign;
pub mod mounts;
pub mod name;
pub mod pin;
mod protocol_era;
mod same_result;
pub mod server;
mod size;
pub mod upstream;
mod web_page;
