//! Pages of many kinds as text, and pages made to hurt.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod hostile;
mod pages;
