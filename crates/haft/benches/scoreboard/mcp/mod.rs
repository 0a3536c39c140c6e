//! Rows 4, 6 and 10: the built program as an agent meets it, over MCP. Everything here runs as
//! processes of their own and is asked by one load generator (`pipes`, `requests`), which does as little
//! as it can: what it costs is the same on both sides.

mod hop;
mod pipes;
mod program;
mod read;
mod requests;
mod start;

pub(crate) use self::{hop::rows as hop, read::rows as read, start::rows as start};
