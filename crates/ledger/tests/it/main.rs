//! What the ledger on SQLite must do, shown from outside: through the contract's traits, through
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
mod failure;
mod group;
mod labels;
mod record;
mod resume;
mod secrets;
mod store;
mod suite;
mod support;
mod waiting;
