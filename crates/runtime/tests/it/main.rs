//! The runtime through its public doors: registry, pipeline, batches, and what happens when
//! things go wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod approvals;
mod changes;
mod deadlines;
mod dry_run;
mod exactly_once;
mod fixed_arguments;
mod guard;
mod guard_world;
mod hooks;
mod host_events;
mod input;
mod items;
mod labels;
mod load;
mod loops;
mod masks;
mod outgoing;
mod output;
mod panics;
mod parallel;
mod policy;
mod previews;
mod questions;
mod registry;
mod replaced_rules;
mod scripted;
mod shutdown;
mod standing;
mod workspaces;
