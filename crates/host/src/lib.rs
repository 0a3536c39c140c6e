//! From settings to a running Haft: the one composition that the command line, the facade for
//! embedders, and every server use.
//!
//! [`config`] reads what an operator wrote and trusted, [`Host::open`] builds a runtime from it,
//! [`mount`] adds MCP servers to the built-in tools. State kept between runs besides the record
//! (pins, logins, server states) is in [`state`]. Nothing is decided here and no call runs here;
//! errors are [`HostError`]s, and exit codes stay in `cli`.

pub mod advice;
pub mod ancestry;
pub mod asked_again;
mod assembly;
mod builder;
pub mod call_lookup;
pub mod config;
mod data_dir;
#[cfg(feature = "databases")]
mod databases;
mod desktop;
pub mod error;
mod first_answer;
mod follow_trust;
pub mod grant_history;
mod host;
mod host_policy;
mod hosted_workspaces;
pub mod mount;
pub mod orphans;
mod other_places;
mod own_tools;
pub mod package_versions;
pub mod question;
mod readiness;
mod record;
pub mod record_file;
pub mod record_migration;
pub mod record_size;
pub mod recorded_question;
pub mod relative_time;
pub mod replay;
pub mod rules;
pub mod screen_text;
mod script_secrets;
pub mod selected_calls;
pub mod state;
pub mod suggest;
pub mod this_workspace;
pub mod todo_lists;
pub mod undo;
mod webhook;
mod why_shown;
pub mod workspace;
mod workspaces_by_caller;

/// An MCP server to mount, with the settings of an entry of `[[mcp.servers]]`.
pub use self::config::mcp::ServerSettings as McpServer;
#[cfg(feature = "databases")]
pub use self::databases::{CheckedSource, check_sources};
pub use self::{
    assembly::{Assembly, problem},
    builder::HostBuilder,
    data_dir::platform_data_dir,
    desktop::DesktopApprover,
    error::{HostError, HostErrorKind},
    first_answer::FirstAnswer,
    host::Host,
    host_policy::HostPolicy,
    hosted_workspaces::{HostedWorkspace, MAX_OPEN_WORKSPACES},
    other_places::OtherPlaces,
    own_tools::{
        ConfiguredScript, ScriptEntry, ToolThatIsOff, configured_scripts, off_until_named,
    },
    record::{Record, RecordOptions},
    webhook::{Webhook, WebhookError, WebhookKey},
    why_shown::WhyShown,
    workspace::WorkspaceSource,
};
