//! The factory type `http`: one operation of an API as a tool, described in `haft.toml`.
//!
//! The operator says where a request goes, which arguments it has and where each stands in it. Arguments
//! fill places and never make any: they are encoded for where they stand, or refused, and none is part
//! of the host. Nothing here opens a connection: requests go out as those of every other tool.
//!
//! Read next: [`operation`] for what is checked when the configuration is read, `request` for what is
//! checked with each call, [`tool`] for the order of both.

pub mod operation;
pub mod tool;

mod answer;
mod body;
mod encode;
mod method;
mod redirect;
mod request;
mod schema;
mod secret_places;
mod sent_parts;
mod settings;
mod template;

pub use operation::HttpOperation;
pub use tool::HttpTool;
