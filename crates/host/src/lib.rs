//! From settings to a running Haft: the one composition that the command line, the facade for
//! embedders, and every server use.
//!
//! [`config`] reads what an operator wrote and trusted, [`Host::open`] builds a runtime from it,
//! [`mount`] adds MCP servers to the built-in tools. State kept between runs besides the record
//! (pins, logins, server states) is in [`state`]. Nothing is decided here and no call runs here;
//! errors are [`HostError`]s, and exit codes stay in `cli`.

#[cfg(feature = "settings")]
pub mod advice;
#[cfg(feature = "settings")]
pub mod ancestry;
pub mod asked_again;
mod assembly;
mod builder;
#[cfg(feature = "settings")]
pub mod call_lookup;
#[cfg(feature = "settings")]
pub mod cite;
#[cfg(feature = "settings")]
pub mod config;
#[cfg(feature = "settings")]
mod configured_scripts;
mod data_dir;
#[cfg(feature = "databases")]
mod databases;
#[cfg(feature = "settings")]
mod desktop;
mod directory;
#[cfg(feature = "settings")]
pub mod doctor;
mod embedded_texts;
pub mod error;
mod first_answer;
#[cfg(feature = "settings")]
mod follow_trust;
#[cfg(feature = "settings")]
pub mod grant_choice;
#[cfg(feature = "settings")]
pub mod grant_history;
mod host;
mod host_policy;
#[cfg(feature = "settings")]
mod host_servers;
mod hosted_workspaces;
mod mounting;
#[cfg(feature = "settings")]
pub mod openapi;
pub mod orphans;
#[cfg(feature = "settings")]
mod other_places;
#[cfg(feature = "settings")]
mod own_tools;
#[cfg(feature = "settings")]
pub mod package_versions;
#[cfg(feature = "settings")]
mod places_apart;
pub mod question;
#[cfg(feature = "settings")]
pub mod random;
mod readiness;
mod record;
#[cfg(feature = "settings")]
pub mod record_file;
#[cfg(feature = "settings")]
pub mod record_migration;
#[cfg(feature = "settings")]
pub mod record_size;
pub mod recorded_question;
#[cfg(feature = "settings")]
pub mod relative_time;
#[cfg(feature = "sandbox")]
mod remote_workspace;
#[cfg(feature = "settings")]
pub mod replay;
pub mod rules;
pub mod screen_text;
#[cfg(feature = "settings")]
mod script_secrets;
#[cfg(feature = "settings")]
pub mod selected_calls;
#[cfg(feature = "settings")]
pub mod serving;
#[cfg(all(feature = "databases", feature = "settings"))]
pub mod sources;
#[cfg(feature = "settings")]
pub mod state;
pub mod suggest;
mod tenant_directories;
#[cfg(feature = "settings")]
pub mod this_workspace;
#[cfg(feature = "settings")]
pub mod todo_lists;
#[cfg(feature = "sandbox")]
pub mod undo;
mod web;
#[cfg(feature = "webhook")]
mod webhook;
#[cfg(feature = "settings")]
mod why_shown;
pub mod workspace;
#[cfg(feature = "settings")]
mod workspaces_by_caller;

/// An MCP server to mount, with the settings of an entry of `[[mcp.servers]]`.
#[cfg(feature = "settings")]
pub use self::config::mcp::ServerSettings as McpServer;
#[cfg(feature = "sandbox")]
pub use self::remote_workspace::RemoteWorkspace;
#[cfg(feature = "webhook")]
pub use self::webhook::{Webhook, WebhookError, WebhookKey};
pub use self::{
    assembly::{Assembly, problem},
    builder::HostBuilder,
    data_dir::platform_data_dir,
    directory::DirectoryOptions,
    error::{HostError, HostErrorKind},
    first_answer::FirstAnswer,
    host::Host,
    host_policy::HostPolicy,
    hosted_workspaces::{HostedWorkspace, MAX_OPEN_WORKSPACES},
    record::{Record, RecordOptions},
    workspace::WorkspaceSource,
};
#[cfg(feature = "settings")]
pub use self::{
    configured_scripts::{ConfiguredScript, ScriptEntry, configured_scripts},
    desktop::DesktopApprover,
    mounting::mount,
    other_places::OtherPlaces,
    own_tools::{ToolThatIsOff, off_until_named},
    why_shown::WhyShown,
};
