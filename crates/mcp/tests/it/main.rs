//! The integration tests of `haft-mcp`, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests start programs, look at files and fail by panicking"
)]

mod aborts;
mod attacks;
mod auth;
mod caller;
mod catalog;
mod conformance;
mod eras;
mod house;
mod server;
mod supervise;
mod upstream;
