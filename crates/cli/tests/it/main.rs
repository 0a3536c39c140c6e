//! Runs the built program as a person would: in a home and a workspace of its own, through a pipe
//! or a terminal. `support.rs` has the stage; each other file is one part of the program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests start the program, look at files and fail by panicking"
)]

mod agent_killed;
mod agent_section;
mod agents;
mod answers;
mod api_server;
mod approval;
mod approval_webhook;
mod back_ends;
mod call;
mod catalog;
mod clarify;
mod configuration;
mod containers;
mod databases;
mod desktop;
mod doctor;
mod five_minutes;
mod follow_trust;
mod grants;
mod hostile_servers;
mod http_tool;
mod idle_init;
mod interrupt;
mod lists_and_memories;
mod live;
mod mcp;
mod mcp_approvals;
mod mcp_forms;
mod mcp_login;
mod mcp_peers;
mod migration;
mod mounted;
mod mounted_newcomer;
mod newcomer;
mod object_storage;
mod one_record;
mod only_haft;
mod policy;
mod privacy;
mod readiness;
mod real_agents;
mod record;
mod recovery;
mod reference;
mod replay;
mod script_secrets;
mod scripts;
mod serve;
mod support;
mod takeover;
mod terminal;
mod timeouts;
mod tmux;
mod tools;
mod tools_import;
mod trust_changes;
mod undo;
mod undo_git;
mod watch;
mod web;
mod web_search;
mod who_asks;
mod workspaces;
