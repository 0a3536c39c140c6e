//! Pages of many kinds as text, and pages made to hurt.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod hostile;
mod hostile_pdf;
mod pages;
mod pdf;
