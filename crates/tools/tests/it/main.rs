//! The built-in tools, run through the real pipeline, in memory and on the local disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

mod bash;
mod calls;
mod clarify;
mod conflict;
mod copy;
mod edit;
mod frugal;
mod fuzz;
mod memory;
mod patch;
mod preview;
mod process;
mod read;
mod read_output;
mod schemas;
mod script;
mod search;
mod suite;
mod todo;
mod undo;
mod workspace;
mod write;
