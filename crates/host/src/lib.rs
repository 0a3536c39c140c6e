//! From settings to a running Haft: the one composition that the command line, the facade for
//! embedders, and every server use.
//!
//! [`config`] reads what an operator wrote and trusted, [`host`] makes a runtime of it, [`mount`]
//! puts MCP servers beside the built-in tools. What is kept between runs beside the record (pins,
//! logins, how servers are) is in [`state`]. Nothing is decided here and no call runs here; errors
//! are [`HostError`]s, and exit codes stay in `cli`.

pub mod ancestry;
mod beside;
pub mod config;
mod data_dir;
pub mod error;
pub mod host;
pub mod mount;
pub mod orphans;
pub mod replay;
pub mod rules;
pub mod state;
pub mod suggest;
mod webhook;

pub use self::{
    beside::Beside,
    data_dir::platform_data_dir,
    error::{HostError, HostErrorKind},
    webhook::{Webhook, WebhookError, WebhookKey},
};
