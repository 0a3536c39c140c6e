//! A host opened from settings, as every program that serves opens one.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests prepare real directories and fail by panicking"
)]

mod configured_host;
#[cfg(feature = "databases")]
mod databases;
mod mcp_service;
mod tenants;
