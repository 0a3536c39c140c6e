//! The facade as an embedder uses it: real files, real processes and a real record, each test in
//! directories of its own. The examples are run here too.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

mod agents;
mod anthropic;
mod approval;
mod attacks;
mod builder_examples;
mod crash;
mod crash_approvals;
mod days;
mod elsewhere;
mod enum_inputs;
mod examples;
mod foreseen;
mod helper_program;
mod home;
mod host;
mod live;
mod many_grants;
mod many_workspaces;
mod matrix;
mod named_errors;
mod openai;
mod openai_responses;
mod opening;
mod panics;
mod place;
mod readme;
mod replaced_rules;
mod rules_in_code;
mod sample;
mod scenarios;
mod shapes;
mod small_program;
mod storm;
mod surface;
mod tool;
mod tool_fn;
mod turn_questions;
mod turns;
mod two_tenants_mcp;
mod undo;
mod waiting;
mod wall_time;
mod webhook;
