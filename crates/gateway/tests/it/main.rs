//! The gateway over real HTTP on loopback, in front of a real host with its record on disk.
//!
//! `served.rs` starts one and speaks to it; the others are about one part of the API each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests look at the machine from outside the jail"
)]

mod approvals;
mod calls;
mod console;
mod console_browser;
mod credentials;
mod events;
mod mcp;
mod openapi;
mod restart;
mod served;
mod strangers;
mod tenants;
