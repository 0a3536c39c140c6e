//! Towards MCP servers: Haft as their client, and their tools as Haft's.

pub mod connection;
pub mod supervise;
