//! The local back end against the real operating system: attacks and their benign twins.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests look at the machine from outside the jail"
)]

mod changes;
mod changes_git;
mod changes_ignored;
mod container;
mod files;
mod processes;
mod races;
mod remote;
mod repository;
mod rights;
mod saved_by_others;
mod scripts;
mod search;
mod ssh;
mod suites;
mod workspace;
