//! What the ledger must do, on SQLite and (`postgres/`) on PostgreSQL, shown from outside: through the contract's traits, through
//! the bytes it leaves on disk, and by killing processes that use it.

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

mod approvals;
mod artifacts;
mod backlog;
mod chain;
mod child;
mod crash;
mod engine;
mod failure;
mod gateway;
mod grants;
mod group;
mod growth;
mod labels;
mod many_instances;
mod memories;
mod memory;
mod objects;
mod older_schema;
mod open_calls;
mod own_store;
mod postgres;
mod ranges;
mod record;
mod resume;
mod schema_steps;
mod secrets;
mod store;
mod suite;
mod support;
mod transfer;
mod waiting;
